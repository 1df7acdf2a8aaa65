//! The forms of secrets: one row each, with what is checked beside the form.
//!
//! The forms of tokens are those that their issuers document. Which issuers there are was compared with the public rules of
//! gitleaks (MIT licence, <https://github.com/gitleaks/gitleaks>); the expressions are our own. What follows a name such as
//! `password=` has no form, so it is checked that no person wrote it as a word.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};

/// A form of a secret.
#[derive(Debug)]
pub(crate) struct Form {
    /// The word in the mark that takes the secret's place.
    pub(crate) kind: &'static str,
    /// A regular expression. Its group is the secret, if it has one.
    pub(crate) pattern: String,
    pub(crate) secret: Check,
}

/// Returns how many bytes of what was found are a secret; `None`: it is none.
pub(crate) type Check = fn(&str) -> Option<usize>;

pub(crate) const KEY: &str = "key";
pub(crate) const TOKEN: &str = "token";
pub(crate) const PASSWORD: &str = "password";
pub(crate) const CARD: &str = "card";

/// Keys and tokens that begin with the name of their issuer or their kind.
const PREFIXED: &[(&str, &str)] = &[
    // OpenAI, Anthropic, OpenRouter, DeepSeek and others; Stripe; AWS; Google; Alibaba.
    (KEY, "sk-[A-Za-z0-9_-]{20,}"),
    (KEY, "[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}"),
    (KEY, "whsec_[A-Za-z0-9+/=]{24,}"),
    (KEY, "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}END"),
    (KEY, "ABSK[A-Za-z0-9+/]{80,}={0,2}"),
    (KEY, "AIza[A-Za-z0-9_-]{35}"),
    (KEY, "GOCSPX-[A-Za-z0-9_-]{28}"),
    (KEY, "LTAI[A-Za-z0-9]{17,21}END"),
    // Servers of models: Groq, xAI, Perplexity, Replicate, Tavily, NVIDIA, LangSmith, Pinecone, Yandex, Hugging Face.
    (KEY, "gsk_[A-Za-z0-9]{40,}"),
    (KEY, "xai-[A-Za-z0-9]{60,}"),
    (KEY, "pplx-[A-Za-z0-9]{40,}"),
    (KEY, "r8_[A-Za-z0-9]{37}"),
    (KEY, "tvly-[A-Za-z0-9-]{20,}"),
    (KEY, "nvapi-[A-Za-z0-9_-]{50,}"),
    (KEY, "lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    (KEY, "pcsk_[A-Za-z0-9_]{40,}"),
    (KEY, "AQVN[A-Za-z0-9_-]{35}"),
    (TOKEN, "(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    // Mail and messages: SendGrid, Brevo, Mailgun, Mailchimp, Resend, Twilio, Telegram, Discord, Slack.
    (KEY, r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}"),
    (KEY, "xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    (KEY, "(?:pub)?key-[a-f0-9]{32}"),
    (KEY, "[a-f0-9]{32}-us[0-9]{1,2}END"),
    (KEY, "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    (KEY, "SK[a-f0-9]{32}END"),
    (TOKEN, "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}END"),
    (TOKEN, r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),
    (TOKEN, r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    (TOKEN, "xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-f0-9]{16,}"),
    (TOKEN, "hooks\\.slack\\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}"),
    (TOKEN, "discord(?:app)?\\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{50,}"),
    (TOKEN, "webhook\\.office\\.com/webhookb2/[A-Za-z0-9@/-]{60,}"),
    // Sources and packages: GitHub, GitLab, npm, PyPI, RubyGems, NuGet, crates.io, Docker, Artifactory, Sourcegraph, SonarQube.
    (TOKEN, "gh[pousr]_[A-Za-z0-9]{36,}"),
    (TOKEN, "github_pat_[A-Za-z0-9_]{22,}"),
    (TOKEN, "gl(?:pat|dt|ft|rt|cbt|ptt|agent|oas|soat|imt|ffct)-[A-Za-z0-9_.=-]{20,}"),
    (TOKEN, "GR1348941[A-Za-z0-9_-]{20}"),
    (TOKEN, "npm_[A-Za-z0-9]{36}"),
    (TOKEN, "pypi-[A-Za-z0-9_-]{50,}"),
    (TOKEN, "rubygems_[a-f0-9]{48}"),
    (TOKEN, "oy2[a-z0-9]{43}END"),
    (TOKEN, "cio[A-Za-z0-9]{32}END"),
    (TOKEN, "dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    (TOKEN, "AKCp[A-Za-z0-9]{60,}"),
    (TOKEN, "sgp_(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}"),
    (TOKEN, "sq[upa]_[a-f0-9]{40}"),
    // Clouds: Google, Vault, Terraform, DigitalOcean, Doppler, Databricks, Dynatrace, Pulumi, Tailscale, PlanetScale, Supabase,
    // OpenShift, Azure, Cloudflare, Heroku, Fly.
    (TOKEN, r"ya29\.[A-Za-z0-9_-]{20,}"),
    (TOKEN, "1//0[A-Za-z0-9_-]{40,}"),
    (TOKEN, r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    (TOKEN, r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    (TOKEN, "do[opr]_v1_[a-f0-9]{64}"),
    (TOKEN, r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    (TOKEN, "dapi[a-f0-9]{32}"),
    (TOKEN, r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    (TOKEN, "pul-[a-f0-9]{40}"),
    (TOKEN, "tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{16,}"),
    (TOKEN, "pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,}"),
    (TOKEN, "(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    (TOKEN, "sha256~[A-Za-z0-9_-]{43}"),
    (TOKEN, r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    (TOKEN, r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"),
    (TOKEN, "HRKU-[A-Za-z0-9_-]{36,}"),
    (TOKEN, "f(?:o1_|m[12][ar]?_)[A-Za-z0-9+/=_-]{40,}"),
    // Operations and work: Sentry, Grafana, New Relic, Postman, Linear, Notion, Figma, Atlassian, Airtable, CircleCI, Buildkite,
    // Contentful, Typeform, Prefect, ReadMe, Octopus, 1Password, age.
    (TOKEN, "sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    (TOKEN, "gl(?:c|sa)_[A-Za-z0-9+/_]{32,}"),
    (KEY, "NRAK-[A-Z0-9]{27}"),
    (KEY, "PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    (KEY, "lin_api_[A-Za-z0-9]{40}"),
    (TOKEN, "(?:secret_[A-Za-z0-9]{43}|ntn_[0-9]{11}[A-Za-z0-9]{35})"),
    (TOKEN, "figd_[A-Za-z0-9_-]{30,}"),
    (TOKEN, "AT[AC]TT3[A-Za-z0-9_=-]{60,}"),
    (TOKEN, r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    (TOKEN, "(?:CCIPAT_[A-Za-z0-9]+_|bkua_)[a-f0-9]{40}"),
    (TOKEN, "(?:CFPAT-|tfp_|pnu_|rdme_)[A-Za-z0-9_.=-]{36,}"),
    (KEY, "API-[A-Z0-9]{26}END"),
    (TOKEN, "ops_eyJ[A-Za-z0-9+/=_-]{100,}"),
    (KEY, "AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    // Payments and shops: Square, Shopify, Shippo, EasyPost, Duffel, Plaid. Facebook.
    (TOKEN, "(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60})"),
    (TOKEN, "shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    (TOKEN, "(?:shippo_(?:live|test)_[a-f0-9]{40}|EZ[AT]K[A-Za-z0-9]{54}|duffel_(?:live|test)_[A-Za-z0-9_=-]{43})"),
    (TOKEN, "(?:access-(?:sandbox|development|production)-[a-f0-9-]{36}|EAA[A-Z][A-Za-z0-9]{100,})"),
    // This server, and JSON Web Tokens.
    (TOKEN, "mnemon_[A-Za-z0-9_-]{43}"),
    (TOKEN, r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+){0,2}"),
];

/// Where a word begins and ends. An underscore may stand there, which emphasizes it.
const BEGIN: &str = r"(?-u:\b{start-half}|_)";
const END: &str = r"(?-u:\b{end-half}|_)";
/// The separator between the name of a value and the value, in programs, in headers and in JSON.
const IS: &str = r#"(?:["'`\])]{0,2}[ \t]{0,3}(?:=>|:=|->|[:=])[ \t]{0,3}|["'][ \t]?,[ \t]?)"#;
const PASSWORD_NAME: &str = r"(?i-u:password|passwd|passphrase|pwd|(?:\b{start-half}|[_.-])pass)";
const KEY_NAME: &str = r"(?i-u:(?:api|access|account|auth|secret|private|encryption|signing|master|shared|subscription|client|app|consumer|webhook|refresh|bearer|bot)[ _.-]?(?:access[ _.-]?)?(?:key|token|secret)|secret|token|authorization|credential)";

/// Returns all forms.
pub(crate) fn forms() -> Vec<Form> {
    let form = |kind, pattern: String, secret| Form { kind, pattern, secret };
    let prefixed = PREFIXED.iter().map(|&(kind, pattern)| {
        let pattern = format!("{BEGIN}({})", pattern.replace("END", END));
        form(kind, pattern, if kind == KEY { with_digit } else { all })
    });
    let whole = |kind, pattern: &str, secret| form(kind, pattern.to_owned(), secret);
    let others = [
        // In this order: what follows is not looked for in what is replaced already.
        whole(
            "private-key",
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:(?s:.*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=,.: \t\r\n-]*)",
            all,
        ),
        whole("private-key", r"PuTTY-User-Key-File-[23]:(?s:.*?)Private-Lines: [0-9]+[ \r\n]+[A-Za-z0-9+/=\r\n]+", all),
        // Headers, and what programs make them of.
        form(
            TOKEN,
            format!(
                r#"(?i-u:authorization){IS}["'(]{{0,2}}(?i-u:bearer|basic|token|api-?key|key|jwt|bot|splunk|ssws|genie-?key)(?:[ \t:]+["']?|[ \t]*["'][ \t]*[+.,]+[ \t]*["'])([A-Za-z0-9._~+/=:-]{{8,}})"#
            ),
            opaque,
        ),
        whole(
            TOKEN,
            r#"(?i-u:\b{start-half}bearer)(?:[ \t:]+["']?|[ \t]*["'][ \t]*[+.,]+[ \t]*["'])([A-Za-z0-9._~+/=-]{16,})"#,
            made_by_machine,
        ),
        whole(TOKEN, r"(?i-u:\b{start-half}basic)[ \t]+([A-Za-z0-9+/]{6,}={0,2})", credentials),
        whole(
            TOKEN,
            r#"(?i-u:\b{start-half}(?:signature|response|sig))["']?[=:][ ]?["']?([A-Za-z0-9+/_=%-]{32,})"#,
            made_by_machine,
        ),
        whole(
            TOKEN,
            r#"(?i-u:\b{start-half}(?:set-)?cookie)["']?[ ]?[:,=][ ]?["']?([A-Za-z0-9_.-]+=[^ \t\r\n"']{16,}(?:[ ][^ \t\r\n"'=]+=[^ \t\r\n"']+)*)"#,
            made_by_machine,
        ),
        // Addresses, and programs that are given a password.
        whole(PASSWORD, r#"[A-Za-z][A-Za-z0-9+.-]*://[^ \t\r\n/:@?#\[\]"'<>]*:([^ \t\r\n"'<>`]+)"#, in_address),
        whole(TOKEN, r#"://([^ \t\r\n/:@?#\[\]"'<>]{16,}):x-oauth-basic@"#, all),
        whole(
            PASSWORD,
            r#"(?i-u:\b{start-half}curl) [^\r\n]*?(?:-u|--user|--proxy-user)[ =]?["']?[^ \t\r\n:"']+:([^ \t\r\n"']{3,})"#,
            given,
        ),
        whole(
            PASSWORD,
            r"(?i-u:\b{start-half}login)[ \t\r\n]+[^ \t\r\n]+[ \t\r\n]+(?i-u:password)[ \t]+([^ \t\r\n]{4,})",
            given,
        ),
        whole(PASSWORD, r#"(?i-u:\b{start-half}sshpass) -p[ ]?["']?([^ \t\r\n"']{4,})"#, given),
        // What has a name.
        form(PASSWORD, format!(r#"{PASSWORD_NAME}{IS}"([^"\r\n]{{4,200}})""#), password),
        form(PASSWORD, format!(r"{PASSWORD_NAME}{IS}'([^'\r\n]{{4,200}})'"), password),
        form(PASSWORD, format!(r#"{PASSWORD_NAME}{IS}([^ \t\r\n"'`<>,;&]{{6,200}})"#), password),
        form(KEY, format!(r#"{KEY_NAME}{IS}["'`]?([A-Za-z0-9+/_=.~-]{{16,}})"#), made_by_machine),
    ];
    prefixed.chain(others).collect()
}

/// Returns what the name of a field in JSON says about its text: the kind of secret, and its check.
pub(crate) fn named() -> [(&'static str, String, Check); 2] {
    [(PASSWORD, format!("{PASSWORD_NAME}$"), password), (KEY, format!("{KEY_NAME}$"), made_by_machine)]
}

/// How a reference to a value begins that is elsewhere: in a variable, a template, a file.
const REFERENCES: [char; 9] = ['$', '{', '<', '*', '[', '(', '%', '/', '`'];

fn all(found: &str) -> Option<usize> {
    Some(found.len())
}

fn with_digit(found: &str) -> Option<usize> {
    found.contains(|c: char| c.is_ascii_digit()).then_some(found.len())
}

fn with_letter(found: &str) -> Option<usize> {
    found.contains(|c: char| c.is_ascii_alphabetic()).then_some(found.len())
}

/// A password that a program is given, unless it is a reference to one.
fn given(found: &str) -> Option<usize> {
    (with_letter(found).is_some() && !found.starts_with(REFERENCES)).then_some(found.len())
}

/// Returns the length of the credentials after the word for a kind of authorization, unless they are a word too.
fn opaque(found: &str) -> Option<usize> {
    let is_word = found.chars().skip(1).all(|c| !c.is_ascii_digit() && !c.is_ascii_uppercase());
    (!is_word && !is_identifier(found) || found.len() >= 40).then_some(found.len())
}

/// Returns the length of a value that looks random: it has letters and digits, and does not repeat the same ones.
fn made_by_machine(found: &str) -> Option<usize> {
    let mut different = [false; 256];
    found.bytes().for_each(|byte| different[usize::from(byte)] = true);
    let is_mixed = with_digit(found).is_some() && with_letter(found).is_some();
    (is_mixed
        && different.iter().filter(|is_there| **is_there).count() >= 8
        && !is_identifier(found)
        && !is_algorithm(found))
    .then_some(found.len())
}

/// Returns true for a path to a variable of a program, such as `process.env.API_KEY_2`, or to a file.
fn is_identifier(found: &str) -> bool {
    if found.starts_with(['/', '~', '.']) && found.contains(['.', '_', '-']) {
        return true;
    }
    let is_name = |name: &str| {
        let digits = name.bytes().filter(u8::is_ascii_digit).count();
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && digits <= 1 && name.len() < 24
    };
    found.contains(['.', '_']) && found.split('.').all(is_name)
}

/// Returns true for the name of an algorithm, such as `AWS4-HMAC-SHA256`.
fn is_algorithm(found: &str) -> bool {
    let is_word = |word: &str| word.len() <= 8 && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    found.contains('-') && found.split('-').count() <= 3 && found.split('-').all(is_word)
}

/// A password beside its name: letters, with a digit or a sign among them, and no reference to one that is elsewhere.
fn password(found: &str) -> Option<usize> {
    let found = found.trim_end_matches(['.', ',', ':', ')', ']', '}']);
    let is_reference = found.starts_with(REFERENCES) || found.contains(['(', ' ']);
    let is_sign = |c: char| c.is_ascii_digit() || "!@#$%^&*?~+=".contains(c);
    let before_end = &found[..found.len() - found.chars().next_back().map_or(0, char::len_utf8)];
    let is_mixed = found.contains(char::is_alphabetic)
        && (before_end.contains(is_sign) || found.ends_with(|c: char| c.is_ascii_digit()));
    (is_mixed && !is_reference && !is_identifier(found) && found.len() >= 6).then_some(found.len())
}

/// The password in what follows the colon after the user of an address. It may have an `@`, and in addresses that programs
/// are lenient with, a slash.
fn in_address(found: &str) -> Option<usize> {
    let found = &found[..found.find("://").unwrap_or(found.len())];
    let authority = &found[..found.find(['/', '?', '#']).unwrap_or(found.len())];
    let is_port = authority.len() <= 5 && authority.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rfind('@') {
        None if is_port => None,
        None => found.rfind('@'),
        end => end,
    }
    .filter(|end| *end > 0)
}

/// A user and a password in base64.
fn credentials(found: &str) -> Option<usize> {
    let decoded = STANDARD_NO_PAD.decode(found.trim_end_matches('=')).ok()?;
    let is_pair = decoded.contains(&b':') && decoded.iter().all(|byte| matches!(byte, 0x20..0x7f));
    is_pair.then_some(found.len())
}
