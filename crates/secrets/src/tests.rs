//! Shapes in which secrets come, and texts that stay as they are.
//!
//! No secret here is real, and each is put together when the tests run, so that no scanner takes it for one.

use serde_json::{Value, json};

use super::*;

/// Returns texts of one alphabet that look as if a machine had made them: the same ones in each run.
fn random(alphabet: &str, length: usize) -> String {
    let (alphabet, mut state) = (alphabet.as_bytes(), length as u64 + 7);
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..length).map(next).collect()
}

fn letters(length: usize) -> String {
    random("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", length)
}

fn capitals(length: usize) -> String {
    random("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", length)
}

fn hex(length: usize) -> String {
    random("0123456789abcdef", length)
}

/// Returns a number with these first digits, this length and a right check digit.
fn card(first: &str, length: usize) -> String {
    let mut number = format!("{first}{}", random("0123456789", length - first.len() - 1));
    let digits = ('0'..='9').map(|digit| format!("{number}{digit}")).find(|number| has_check_digit(number));
    number = digits.expect("one of ten is right");
    number
}

/// The check of ISO/IEC 7812, by another hand than `cards`.
fn has_check_digit(number: &str) -> bool {
    let doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
    let digits = number.bytes().rev().map(|digit| usize::from(digit - b'0'));
    digits.enumerate().map(|(at, digit)| if at % 2 == 1 { doubled[digit] } else { digit }).sum::<usize>() % 10 == 0
}

fn grouped(number: &str, groups: &[usize], separator: &str) -> String {
    let mut rest = number;
    let groups = groups.iter().map(|length| {
        let (group, after) = rest.split_at(*length);
        rest = after;
        group
    });
    groups.collect::<Vec<_>>().join(separator)
}

/// The secrets of which each is tried in each place.
fn secrets() -> Vec<(&'static str, String)> {
    let key = |begin: &str, rest: String| ("key", format!("{begin}{rest}"));
    let token = |begin: &str, rest: String| ("token", format!("{begin}{rest}"));
    let web = format!("{}.{}.{}", "eyJ".to_owned() + &letters(20), "eyJ".to_owned() + &letters(40), letters(43));
    vec![
        key("sk-", letters(48)),
        key("sk-ant-api03-", letters(90)),
        key("sk-proj-", letters(60)),
        key("sk_live_", letters(24)),
        key("rk_test_", letters(24)),
        key("whsec_", letters(32)),
        key("AKIA", capitals(16)),
        key("ASIA", capitals(16)),
        key("AIza", letters(35)),
        key("GOCSPX-", letters(28)),
        key("gsk_", letters(52)),
        key("xai-", letters(80)),
        key("r8_", letters(37)),
        key("SG.", format!("{}.{}", letters(22), letters(43))),
        key("NRAK-", capitals(27)),
        key("lin_api_", letters(40)),
        token("hf_", letters(34)),
        token("ghp_", letters(36)),
        token("gho_", letters(36)),
        token("github_pat_", letters(82)),
        token("glpat-", letters(20)),
        token("xoxb-", format!("{}-{}", random("0123456789", 12), letters(24))),
        token("xapp-1-", format!("{}-{}-{}", capitals(11), random("123456789", 13), hex(64))),
        token("https://hooks.slack.com/services/", format!("T{}/B{}/{}", capitals(8), capitals(8), letters(24))),
        token("npm_", letters(36)),
        token("pypi-", letters(90)),
        token("dckr_pat_", letters(27)),
        token("ya29.", letters(60)),
        token("hvs.", letters(90)),
        token("dop_v1_", hex(64)),
        token("dapi", hex(32)),
        token("shpat_", hex(32)),
        token(&format!("{}:AA", random("123456789", 9)), letters(33)),
        token("mnemon_", letters(43)),
        token("", web),
        ("card", card("4", 16)),
        ("card", card("4", 19)),
        ("card", card("51", 16)),
        ("card", card("2221", 16)),
        ("card", card("2720", 16)),
        ("card", card("37", 15)),
        ("card", card("36", 14)),
        ("card", card("305", 14)),
        ("card", card("3530", 16)),
        ("card", card("6011", 16)),
        ("card", card("62", 16)),
        ("card", card("62", 19)),
        ("card", card("2204", 16)),
        ("private-key", format!("-----BEGIN {} KEY-----\n{}\n-----END {0} KEY-----", "RSA PRIVATE", letters(64))),
        (
            "private-key",
            format!("-----BEGIN {} KEY BLOCK-----\n\n{}\n-----END {0} KEY BLOCK-----", "PGP PRIVATE", letters(64)),
        ),
    ]
}

/// The places in which each of them is tried: texts, and values of JSON that hold it.
fn places(secret: &str) -> Vec<(&'static str, Value)> {
    let json_text = |value: Value| value.to_string();
    let escaped = |text: &str| json_text(json!(text)).trim_matches('"').to_owned();
    let lines = format!("first\n{secret}\nlast");
    let arguments = json_text(json!({ "command": lines }));
    let twice = json_text(json!({ "input": arguments }));
    let thrice = json_text(json!({ "body": twice }));
    let (begin, end) = secret.split_at(secret.len() / 2);
    vec![
        ("alone", json!({ "content": secret })),
        ("in a sentence", json!({ "content": format!("It is {secret}, and more.") })),
        ("in brackets", json!({ "content": format!("({secret})") })),
        ("bold", json!({ "content": format!("**{secret}** and `{secret}`") })),
        ("in italics", json!({ "content": format!("_{secret}_") })),
        ("in the shell", json!({ "content": format!("export X=\"{secret}\"; echo '{secret}'") })),
        ("on a line of its own", json!({ "content": lines.clone() })),
        ("after Chinese text", json!({ "content": format!("密钥{secret}") })),
        ("in colours", json!({ "content": format!("\u{1b}[1;32m{secret}\u{1b}[0m") })),
        (
            "in arguments",
            json!({ "content": [{ "type": "tool_call", "id": "c", "name": "run", "arguments": arguments.clone() }] }),
        ),
        (
            "in arguments as JSON",
            json!({ "content": [{ "type": "tool_call", "arguments": { "command": lines.clone(), "n": 1 } }] }),
        ),
        (
            "in OpenAI's calls",
            json!({ "tool_calls": [{ "function": { "name": "run", "arguments": arguments.clone() } }] }),
        ),
        ("in arguments in arguments", json!({ "content": twice })),
        ("in three texts of JSON", json!({ "content": thrice })),
        ("in arguments that were cut off", json!({ "content": format!("{}\\n", &arguments[..arguments.len() - 8]) })),
        (
            "in a result",
            json!({ "content": [{ "type": "tool_result", "content": format!("ok: {}", escaped(&lines)) }] }),
        ),
        ("after a tabulator in a program", json!({ "content": format!("print(\"\\t{}\\t\")", escaped(secret)) })),
        ("after an escape by number", json!({ "content": format!("\\u000a{}\\x0a", escaped(secret)) })),
        (
            "in a query of an address",
            json!({ "content": format!("https://example.org/?q=%0A{}%0A", secret.replace('\n', "%0A").replace(' ', "%20")) }),
        ),
        ("in metadata", json!({ "content": "x", "metadata": { "a": { "b": [secret] } } })),
        ("as a name in metadata", json!({ "content": "x", "metadata": { secret: true } })),
        (
            "over two parts",
            json!({ "content": [{ "type": "text", "text": format!("It is {begin}") }, { "type": "text", "text": format!("{end} here") }] }),
        ),
        ("over three parts", json!({ "content": [{ "text": begin }, { "text": &end[..1] }, { "text": &end[1..] }] })),
        ("in a value", json!({ "value": { "text": secret, "n": 3 } })),
        ("in a batch", json!({ "operations": [{ "op": "put", "key": "k", "value": { "deep": [[secret]] } }] })),
        ("in a file", json!({ "command": "create", "path": "/memories/a", "file_text": lines.clone() })),
        ("in messages", json!({ "messages": [{ "role": "user", "content": secret, "metadata": { "s": secret } }] })),
    ]
}

/// Secrets that are known by what stands around them, with a part that must be gone.
fn in_context() -> Vec<(&'static str, String, String)> {
    let (opaque, basic) = (letters(40), "YWRhOmh1bnRlcjJo");
    let mut shapes = Vec::new();
    let mut add = |kind, form: &str, secret: &str| {
        shapes.push((kind, form.replace("{}", secret), secret.to_owned()));
    };
    for form in [
        "Authorization: Bearer {}",
        "authorization:bearer {}",
        "-H \"Authorization: Bearer {}\"",
        "headers={'Authorization': 'Bearer {}'}",
        "{\"Authorization\": \"Bearer {}\"}",
        "{\\\"Authorization\\\": \\\"Bearer {}\\\"}",
        "req.setRequestHeader(\"Authorization\", \"Bearer {}\")",
        "headers['Authorization'] = 'Bearer {}'",
        "headers[\"Authorization\"] = \"Bearer \" + \"{}\"",
        ".header(AUTHORIZATION, \"Bearer {}\")",
        "Authorization => \"Token {}\"",
        "Proxy-Authorization: Token {}",
        "Authorization: token {}",
        "Authorization%3A%20Bearer%20{}",
        "bearer {}",
        "Authorization: ApiKey {}",
        "Authorization: AWS4-HMAC-SHA256 Credential=x, Signature={}",
    ] {
        add("token", form, &opaque);
    }
    add("token", "Cookie: {}", &format!("session={opaque}; theme=dark"));
    for form in
        ["Authorization: Basic {}", "\"Authorization\": \"Basic {}\"", "--header 'authorization: basic {}'", "Basic {}"]
    {
        add("token", form, basic);
    }
    for form in [
        "x-api-key: {}",
        "X-API-Key: {}",
        "{\"api_key\": \"{}\"}",
        "{\\\"apiKey\\\":\\\"{}\\\"}",
        "OPENAI_API_KEY={}",
        "export AWS_SECRET_ACCESS_KEY={}",
        "aws_secret_access_key = {}",
        "AWS Secret Access Key: {}",
        "client_secret={}&grant_type=x",
        "https://example.org/a?access_token={}&b=1",
        "PRIVATE-TOKEN: {}",
        "AccountKey={};EndpointSuffix=core",
        "Ocp-Apim-Subscription-Key: {}",
        "set_api_key('api_key', '{}')",
        "secret: {}",
    ] {
        add("key", form, &opaque);
    }
    for password in ["hunter2", "p@ssw0rd", "a@b@c", "p%40ss", "pa/ss@word", "x:y@z"] {
        for form in ["postgres://ada:{}@db.example/x", "https://ada:{}@example.org", "redis://:{}@cache:6379/0?a=b"] {
            if !(password.contains('/') && form.contains("redis")) {
                add("password", form, password);
            }
        }
    }
    for form in [
        "mongodb+srv://ada:{}@a.example,b.example/x?w=1",
        "DB_PASSWORD={}",
        "PGPASSWORD={} psql",
        "password: {}",
        "Password: {}\nUser: ada",
        "{\"password\": \"{}\", \"user\": \"ada\"}",
        "{\\\"password\\\": \\\"{}\\\"}",
        "Server=db;User Id=ada;Password={};",
        "db_pass = '{}'",
        "curl -u ada:{} https://example.org",
        "curl -s --user 'ada:{}' https://example.org",
        "machine h login ada password {}",
        "sshpass -p {} ssh h",
        "setProperty(\"password\", \"{}\")",
    ] {
        add("password", form, "Tr0ub4dor&3".split('&').next().unwrap());
    }
    shapes
}

fn card_shapes() -> Vec<String> {
    let visa = card("4", 16);
    let spaced = grouped(&visa, &[4; 4], " ");
    let mut shapes: Vec<String> = [" ", "-", ".", "/", "_", "  ", " - ", "\u{a0}", "\u{202f}", "\u{2013}", "\u{b7}"]
        .iter()
        .map(|separator| format!("card {}", grouped(&visa, &[4; 4], separator)))
        .collect();
    shapes.push(format!("card {}", grouped(&card("37", 15), &[4, 6, 5], " ")));
    shapes.push(format!("card {}", grouped(&card("36", 14), &[4, 6, 4], "-")));
    shapes.push(format!("card {}", grouped(&card("62", 19), &[6, 13], " ")));
    shapes.push(format!("card {}", grouped(&card("4", 19), &[4, 4, 4, 4, 3], " ")));
    shapes.push(format!("card {}", grouped(&visa, &[4, 4, 8], " ").replacen(' ', "\n", 1)));
    for after in [
        " 12/27",
        " 1227",
        " 123",
        " 12-2027",
        ", 12/27, 123",
        " 4711",
        "/12/27",
        " exp 12/27",
        "\n12/27",
        " 12 27 123",
        " 2027-12",
    ] {
        for card in [&visa, &spaced] {
            shapes.push(format!("{card}{after}"));
            shapes.push(format!("3 x {card}{after} on 2026-11-29"));
        }
    }
    shapes.push(visa.chars().map(|digit| char::from_u32(digit as u32 - 0x30 + 0xff10).unwrap()).collect());
    shapes
}

#[test]
fn each_secret_is_replaced_in_each_place() {
    let (replacer, mut shapes, mut wrong) = (Secrets::new(), 0, Vec::new());
    for (kind, secret) in secrets() {
        for (place, before) in places(&secret) {
            shapes += 1;
            let mut after = before.clone();
            let kinds = replacer.replace(&mut after);
            let left = after.to_string();
            // The middle of the secret, without what JSON escapes.
            let middle: String = secret.chars().skip(secret.len() / 2 - 2).take(8).collect();
            let is_gone = !left.contains(&middle) && left.contains(&format!("[{kind} removed]"));
            let again = replacer.replace(&mut after.clone());
            if !is_gone || !kinds.contains(&kind) || !again.is_empty() {
                wrong.push(format!("{kind} {place}: {before} is {left}, {kinds:?}, then {again:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {shapes}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn secrets_are_known_by_what_stands_around_them() {
    let (replacer, mut wrong, shapes) = (Secrets::new(), Vec::new(), in_context());
    for (kind, before, secret) in &shapes {
        let mut after = before.clone();
        let kinds = replacer.replace_in_text(&mut after);
        let again = replacer.replace_in_text(&mut after.clone());
        let whole = before.replace(secret, &format!("[{kind} removed]"));
        if after != whole || kinds != [*kind] || !again.is_empty() {
            wrong.push(format!("{before} is {after}, {kinds:?}, then {again:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), shapes.len(), wrong.join("\n"));
}

#[test]
fn fields_say_what_their_texts_are() {
    let (replacer, secret) = (Secrets::new(), letters(40));
    for (name, text, left) in [
        ("Authorization", format!("Token {secret}"), "Token [key removed]"),
        ("authorization", secret.clone(), "[key removed]"),
        ("x-api-key", secret.clone(), "[key removed]"),
        ("client_secret", secret.clone(), "[key removed]"),
        ("password", "hunter2".to_owned(), "[password removed]"),
        ("DB_PASS", "p@ssword".to_owned(), "[password removed]"),
        ("password", "required".to_owned(), "required"),
        ("next", secret.clone(), &*secret.clone()),
    ] {
        let mut value = json!({ "metadata": { "headers": { name: text } } });
        replacer.replace(&mut value);
        assert_eq!(value["metadata"]["headers"][name], left, "{name}");
    }
}

#[test]
fn cards_are_found_with_any_separator_and_whatever_follows() {
    let (replacer, mut wrong, shapes) = (Secrets::new(), Vec::new(), card_shapes());
    for before in &shapes {
        let mut after = before.clone();
        let kinds = replacer.replace_in_text(&mut after);
        let digits = after.chars().filter(char::is_ascii_digit).count();
        if kinds != ["card"] || digits > 17 {
            wrong.push(format!("{before} is {after}, {kinds:?}"));
        }
    }
    // Every number of an issuer, with an expiry and a code.
    for first in ["4", "51", "55", "2221", "2720", "34", "36", "300", "3528", "6011", "644", "65", "62", "81"] {
        for (length, after) in [(14, ""), (15, " 1227"), (16, " 12/27"), (16, " 123"), (19, " 12/2027 4711")] {
            let mut text = format!("{}{after}", card(first, length));
            let is_a_length = is_card(&card(first, length));
            let kinds = replacer.replace_in_text(&mut text);
            if is_a_length != (kinds == ["card"]) {
                wrong.push(format!("{first}, {length} digits: {text}"));
            }
        }
    }
    let mut number = json!({ "limit": 5, "metadata": { "card": card("4", 16).parse::<u64>().unwrap(), "n": 1_732_612_345_678_u64 } });
    assert_eq!(replacer.replace(&mut number), ["card"]);
    assert_eq!(number, json!({ "limit": 5, "metadata": { "card": "[card removed]", "n": 1_732_612_345_678_u64 } }));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), shapes.len(), wrong.join("\n"));
}

#[test]
fn other_texts_stay() {
    let (replacer, mut wrong) = (Secrets::new(), Vec::new());
    let (hash, long) = (hex(40), hex(64));
    let texts = [
        "My sister's bakery opens in June.".to_owned(),
        format!("commit {hash}\nparent {}", hex(39)),
        format!("sha256:{long}, sha256 = {long}; fixed in {}", &hash[..7]),
        format!("index {}..{} 100644", &hash[..9], &hash[9..18]),
        "550e8400-e29b-41d4-a716-446655440000 and 41111111-1111-4111-8111-111111111111".to_owned(),
        "The ticket sk-12 and the branch sk-learn-models-for-the-harbour are open.".to_owned(),
        "Call +49 4111 1111 or 0151 2345 6789, (212) 555-0199, +44 20 7946 0958.".to_owned(),
        "Call 4111 1111 1111 1112, at 1732612345678, order 5500000000000000000000.".to_owned(),
        "Order 2026112900004711, invoice 4000-1234, room 4532, IBAN DE89 3704 0044 0532 0130 00.".to_owned(),
        format!("[{}] EXT2-fs: unable", grouped(&card("4294", 13), &[7, 6], ".")),
        "Score 0.4532015112830366, 3.14159265358979, 1e300, -0.00051.".to_owned(),
        "2026-11-29T12:15:39.453201Z 10.0.0.1:8080 fe80::1 v5.10.52-generic".to_owned(),
        "[5105, 1051, 510, 5100, 4532, 151, 1283, 366] and 4 5 3 2 0 1 5 1 1 2 8 3 0 3 6 6".to_owned(),
        "ssh://git@host:22/x, https://example.org:8080/@ada, mailto:ada@example.org, git@github.com:ada/boat.git".to_owned(),
        "http://[::1]:8080/a@b, https://example.org/a:b@c, http://localhost:3000/?q=a@b".to_owned(),
        "AKIABCD, AKIAHARBOUR, ghp_short, hf_model, npm_config_registry, glpat-x, xoxb-".to_owned(),
        "My password is long. A password: it has 12 characters. The password? None.".to_owned(),
        "password: required, Password=string, pwd: /home/ada/boat2, passwords: 12345678".to_owned(),
        "password = os.environ['DB_PASSWORD'], password=$PASSWORD, password: ${{ secrets.DB }}, password=<your-password>".to_owned(),
        "const password = getPassword(user1); let token = await nextToken(page2);".to_owned(),
        "'Authorization': f'Bearer {api_token}', 'Bearer ' + process.env.OPENAI_API_KEY, `Bearer ${accessToken}`".to_owned(),
        "Authorization: required. The bearer of this letter. Basic understanding of tokens. Bearer authentication-required-for-all".to_owned(),
        "api_key = settings.openai_api_key_2, token: 12, max_tokens: 4096, secret: false, api_key=YOUR_API_KEY_HERE".to_owned(),
        "credential=/home/ada/.config/gcloud/application_default_credentials2.json, token: ./tokens/token-12.txt".to_owned(),
        "docker run -u 1000:1000 x; chown ada:ada y; curl -u ada https://example.org".to_owned(),
        "The secret of a good bread: patience. Secret: she opens a bakery. Token: a ring.".to_owned(),
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----".to_owned(),
        "C:\\new\\table\\users\\x41, 100%25, \\d{4}-\\d{4}, \\\\server\\share".to_owned(),
        "Gr\u{fc}\u{df}e, \u{5bc6}\u{7801}\u{662f}\u{4ec0}\u{4e48}, Stra\u{df}e 4532".to_owned(),
        format!("data:image/png;base64,{}", letters(200)),
        "cookie: chocolate chips with 250 g of flour; cookies=2".to_owned(),
    ];
    for before in &texts {
        let mut after = before.clone();
        if !replacer.replace_in_text(&mut after).is_empty() || after != *before {
            wrong.push(format!("{before}\n  is {after}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), texts.len(), wrong.join("\n"));
}

#[test]
fn what_says_whose_it_is_stays() {
    let (replacer, user) = (Secrets::new(), card("4", 16));
    let mut request = json!({
        "namespace": user, "session": user, "ids": [user],
        "messages": [{ "id": user, "session": user, "role": "user", "content": user, "metadata": { "id": user } }],
        "filters": { "AND": [{ "user_id": user }] },
    });
    assert_eq!(replacer.replace(&mut request), ["card", "card"]);
    let marked = json!({ "id": user, "session": user, "role": "user", "content": "[card removed]", "metadata": { "id": "[card removed]" } });
    assert_eq!(request["messages"][0], marked);
    assert_eq!((&request["namespace"], &request["ids"][0]), (&json!(user), &json!(user)));
    assert_eq!(request["filters"]["AND"][0]["user_id"], json!(user));
}

#[test]
fn json_in_a_text_stays_json() {
    let (replacer, card) = (Secrets::new(), card("4", 16));
    for (before, after) in [
        (format!(r#"{{"n": {card}, "a": [1]}}"#), json!({ "n": "[card removed]", "a": [1] })),
        (format!(r#"[{card}, "{card}"]"#), json!(["[card removed]", "[card removed]"])),
        (format!(r#"{{"b": "{{\"n\":{card}}}"}}"#), json!({ "b": json!({ "n": "[card removed]" }).to_string() })),
    ] {
        let mut text = before.clone();
        assert!(!replacer.replace_in_text(&mut text).is_empty());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), after, "{before} is {text}");
    }
    // What stays JSON keeps its form.
    let mut text = format!("{{\"z\": 1,  \"a\": \"{card}\"}}");
    replacer.replace_in_text(&mut text);
    assert_eq!(text, "{\"z\": 1,  \"a\": \"[card removed]\"}");
}

#[test]
fn two_names_that_become_one_are_told_apart() {
    let (replacer, mut fields) = (Secrets::new(), Map::new());
    fields.insert(card("4", 16), 1.into());
    fields.insert(card("51", 16), 2.into());
    let mut value = json!({ "metadata": fields });
    replacer.replace(&mut value);
    let mut values: Vec<&Value> = value["metadata"].as_object().unwrap().values().collect();
    values.sort_by_key(|value| value.as_u64());
    assert_eq!(values, [&json!(1), &json!(2)]);
    assert!(value["metadata"]["[card removed] 2"].is_number(), "{value}");
}
