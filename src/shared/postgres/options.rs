//! The options of a connection, from the address, a service file, the environment and the password file, as libpq reads
//! them.
//!
//! An address may also have options that hosts and other clients print in theirs. Each is taken, ignored with a line in the
//! log, or named in the error. An error never has a part of the address that may be one of a password.
//!
//! tokio-postgres reads the values, but knows no service files, no variables and no password files. Of crates that read more,
//! pg-connection-string and postgres-conn-str are under the AGPL, and sqlx-postgres brings a client of its own.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use tokio_postgres::Config;

use super::tls::{Identity, Roots, TlsOptions, VERSIONS};
use crate::error::{Error, Result};

/// The options of a connection, by their names in libpq.
#[derive(Default)]
pub(super) struct Options(BTreeMap<String, String>);

/// The environment variables and the home folder, which complete an address. Tests give others.
pub(super) struct Surroundings {
    pub(super) variable: fn(&str) -> Option<String>,
    pub(super) home: Option<PathBuf>,
}

impl Surroundings {
    pub(super) fn of_process() -> Self {
        Surroundings { variable: |name| env::var(name).ok().filter(|value| !value.is_empty()), home: env::home_dir() }
    }

    /// Returns the path of a file of libpq in the home folder.
    fn file(&self, name: &str) -> Option<PathBuf> {
        match cfg!(windows) {
            true => (self.variable)("APPDATA").map(|folder| PathBuf::from(folder).join("postgresql").join(name)),
            false => self.home.as_ref().map(|folder| folder.join(".postgresql").join(name)),
        }
    }
}

/// The variables of libpq, and the options that they stand for.
const VARIABLES: &[(&str, &str)] = &[
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLSNI", "sslsni"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
];

/// Options that are used. Those of the second half go to the client as they are, with the name that it has for them.
const TAKEN: &[&str] = &[
    "service",
    "servicefile",
    "passfile",
    "max_connections",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslsni",
    "sslaccept",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
];
const PASSED: &[(&str, &str)] = &[
    ("host", "host"),
    ("hostaddr", "hostaddr"),
    ("port", "port"),
    ("dbname", "dbname"),
    ("user", "user"),
    ("password", "password"),
    ("options", "options"),
    ("application_name", "application_name"),
    ("connect_timeout", "connect_timeout"),
    ("keepalives", "keepalives"),
    ("keepalives_interval", "keepalives_interval"),
    ("keepalives_count", "keepalives_retries"),
    ("sslnegotiation", "sslnegotiation"),
    ("target_session_attrs", "target_session_attrs"),
    ("channel_binding", "channel_binding"),
    ("load_balance_hosts", "load_balance_hosts"),
];

/// Other names of options.
const ALIASES: &[(&str, &str)] = &[
    ("connection_limit", "max_connections"),
    ("database", "dbname"),
    ("username", "user"),
    ("applicationname", "application_name"),
    ("fallback_application_name", "application_name"),
    ("ssl", "sslmode"),
    ("requiressl", "sslmode"),
];

/// Options that tell other clients and proxies how to work, and an engine nothing.
#[rustfmt::skip]
const IGNORED: &[&str] = &[
    // What engines do anyway, or with any server.
    "client_encoding", "charset", "encoding", "timezone", "datestyle", "keepalives_idle", "tcp_user_timeout", "sslcompression",
    "min_protocol_version", "max_protocol_version", "krbsrvname", "gsslib", "gssdelegation", "sslkeylogfile",
    // The tables are in the schema `mnemon`.
    "schema", "currentschema", "search_path",
    // Prisma, node-postgres, postgres.js, pgx, lib/pq, JDBC, asyncpg, SQLAlchemy, Django, Rails, Doctrine, and hosts.
    "pgbouncer", "pool_timeout", "socket_timeout", "statement_cache_size", "uselibpqcompat", "workaround", "supa", "prepare",
    "max", "idle_timeout", "max_lifetime", "pool_max_conns", "pool_min_conns", "pool_max_conn_lifetime",
    "pool_max_conn_idle_time", "pool_health_check_period", "default_query_exec_mode", "statement_cache_capacity",
    "description_cache_capacity", "binary_parameters", "preparethreshold", "sockettimeout", "tcpkeepalive", "logintimeout",
    "rewritebatchedinserts", "stringtype", "prepared_statement_cache_size", "async_fallback", "pool", "pool_size",
    "pool_mode", "max_overflow", "pool_recycle", "pool_pre_ping", "conn_max_age", "prepared_statements", "timeout",
    "reaping_frequency", "checkout_timeout", "serverversion", "server_version", "driver", "adapter",
];

/// Options that are not supported, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("sslpassword", "write the key without a password, with `openssl pkey -in FILE -out NEW`, and name it in sslkey"),
    ("sslidentity", "name the certificate and its key in sslcert and sslkey, as files in PEM"),
    (
        "sslcrl",
        "lists of revoked certificates are not read; leave it out, and let the authority's certificates be short-lived",
    ),
    (
        "sslcrldir",
        "lists of revoked certificates are not read; leave it out, and let the authority's certificates be short-lived",
    ),
    ("require_auth", "leave it out, and use channel_binding=require, which allows SCRAM alone"),
    ("requirepeer", "leave it out, and let only the server's user write to the folder of its socket"),
    ("scram_client_key", "use a password"),
    ("scram_server_key", "use a password"),
    ("replication", "leave it out: an engine uses ordinary connections"),
    ("statement_timeout", "write options=-c%20statement_timeout%3D2000 with the number"),
    ("lock_timeout", "write options=-c%20lock_timeout%3D2000 with the number"),
    (
        "idle_in_transaction_session_timeout",
        "write options=-c%20idle_in_transaction_session_timeout%3D2000 with the number",
    ),
];

const FORM: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded";

fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::InvalidConfig { reason: format!("the address of the shared database {reason}") }
}

impl Options {
    /// Reads an address, and what it leaves out from a service file and the environment.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`].
    pub(super) fn read(address: &str, around: &Surroundings) -> Result<Self> {
        let address = address.trim();
        let pairs = match address.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => url(scheme, rest)?,
            _ => words(address)?,
        };
        let mut options = Options::default();
        // The rest of a password that has a special character looks like an option.
        let may_be_secret = address.split_once('?').is_some_and(|(_, query)| query.contains('@'));
        let mut follows_password = false;
        let mut ignored = Vec::new();
        for (name, value) in pairs {
            // Before the host of a URL stands its password.
            let is_secret = may_be_secret || follows_password;
            follows_password = name.contains("password") || follows_password && name != "host";
            match options.take(&name, &value) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(error),
                None if is_ignored(&name, &value) => ignored.push(name),
                None if is_secret || !is_word(&name) => {
                    return Err(invalid(format!("has an option that is not known; {FORM}")));
                }
                None => return Err(invalid(format!("has an option {name:?}, which is not known; leave it out"))),
            }
        }
        if !ignored.is_empty() {
            let ignored = ignored.join(", ");
            tracing::info!(
                "options in the address of the shared database that tell an engine nothing are ignored: {ignored}"
            );
        }
        options.add_service(around)?;
        let has_host = options.has_host();
        for (variable, name) in VARIABLES {
            let is_given = options.0.contains_key(*name) || (has_host && *name == "hostaddr");
            if let (false, Some(value)) = (is_given, (around.variable)(variable)) {
                options.take(name, &value).unwrap_or(Ok(()))?;
            }
        }
        match options.has_host() {
            true => Ok(options),
            false => Err(invalid(format!("names no host, and no PGHOST does; {FORM}"))),
        }
    }

    fn has_host(&self) -> bool {
        self.0.contains_key("host") || self.0.contains_key("hostaddr")
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Takes an option. Returns `None` if it is not known.
    fn take(&mut self, name: &str, value: &str) -> Option<Result<()>> {
        let lower = name.to_ascii_lowercase();
        let name = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(lower.as_str(), |(_, name)| name);
        if let Some((_, remedy)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Some(Err(invalid(format!("has the option {name}, which is not supported; {remedy}"))));
        }
        let value = match (name, value) {
            ("sslmode", "no-verify" | "true" | "1" | "yes" | "on") => "require",
            ("sslmode", "false" | "0" | "no" | "off") => "disable",
            ("target_session_attrs", "primary" | "any") => "read-write",
            ("target_session_attrs", "read-only" | "standby" | "prefer-standby") => {
                return Some(Err(invalid(
                    "asks for a standby by target_session_attrs, which may be behind and stores nothing; name the primary, \
                     or all hosts with target_session_attrs=read-write",
                )));
            }
            ("gssencmode", "require") | ("sslcertmode", "require") => {
                return Some(Err(invalid(format!(
                    "has {name}=require, which is not supported; use sslmode=verify-full"
                ))));
            }
            ("gssencmode" | "sslcertmode", _) => return Some(Ok(())),
            (_, value) => value,
        };
        let is_known = TAKEN.contains(&name) || PASSED.iter().any(|(passed, _)| *passed == name);
        if is_known {
            if lower != "fallback_application_name" || !self.0.contains_key(name) {
                self.0.insert(name.to_owned(), value.to_owned());
            }
            return Some(Ok(()));
        }
        None
    }

    /// Adds what a service says: a section of a file.
    fn add_service(&mut self, around: &Surroundings) -> Result<()> {
        let Some(service) = self.get("service").map(str::to_owned).or_else(|| (around.variable)("PGSERVICE")) else {
            return Ok(());
        };
        let named = self.get("servicefile").map(str::to_owned).or_else(|| (around.variable)("PGSERVICEFILE"));
        let own = named.map(PathBuf::from).or_else(|| match cfg!(windows) {
            true => around.file(".pg_service.conf"),
            false => around.home.as_ref().map(|home| home.join(".pg_service.conf")),
        });
        let common = (around.variable)("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".into());
        for file in own.into_iter().chain([PathBuf::from(common).join("pg_service.conf")]) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let failed = |line: usize, what: &str| {
                invalid(format!("names a service of {}, line {}: {what}", file.display(), line + 1))
            };
            let (mut is_inside, mut was_found) = (false, false);
            for (number, line) in text.lines().map(str::trim).enumerate() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                    // The first one counts.
                    is_inside = !was_found && name == service;
                    was_found |= is_inside;
                } else if is_inside {
                    let (name, value) = line.split_once('=').ok_or_else(|| failed(number, "is not NAME=VALUE"))?;
                    if matches!(name, "service" | "servicefile") || name.starts_with("ldap") {
                        return Err(failed(
                            number,
                            "another service and LDAP are not supported here; write the options",
                        ));
                    }
                    if !self.0.contains_key(name)
                        && self.take(name, value).transpose()?.is_none()
                        && !is_ignored(name, value)
                    {
                        return Err(failed(number, "the option is not known"));
                    }
                }
            }
            if was_found {
                return Ok(());
            }
        }
        Err(invalid("names a service that no file has; add it to ~/.pg_service.conf or the file of $PGSERVICEFILE"))
    }

    /// Returns the most connections of an engine, if it is given.
    pub(super) fn max_connections(&self) -> Result<Option<usize>> {
        let parse = |text: &str| text.parse().ok().filter(|&count| count > 0);
        self.get("max_connections")
            .map(|text| parse(text).ok_or_else(|| invalid("has a max_connections that is not a number from 1 on")))
            .transpose()
    }

    /// Returns how a host is asked for TLS, and how the connection is made.
    pub(super) fn tls(&self, around: &Surroundings) -> Result<(SslMode, TlsOptions)> {
        let roots = self.get("sslrootcert").filter(|path| !path.is_empty());
        let existing = |name: &str| {
            let file = around.file(name).filter(|file| file.exists())?;
            file.into_os_string().into_string().ok()
        };
        let is_strict = self.get("sslaccept") == Some("strict");
        let default = if roots == Some("system") || is_strict { "verify-full" } else { "prefer" };
        let mode = match (self.get("sslmode").unwrap_or(default), is_strict) {
            ("disable", _) => SslMode::Disable,
            (_, true) => SslMode::VerifyFull,
            ("allow", _) => SslMode::Allow,
            ("prefer", _) => SslMode::Prefer,
            ("require", _) => SslMode::Require,
            ("verify-ca", _) => SslMode::VerifyCa,
            ("verify-full", _) => SslMode::VerifyFull,
            _ => {
                return Err(invalid(
                    "has an sslmode that is none of disable, allow, prefer, require, verify-ca and verify-full",
                ));
            }
        };
        if roots == Some("system") && mode != SslMode::VerifyFull {
            return Err(invalid(
                "has sslrootcert=system with a weaker sslmode; use sslmode=verify-full, as anybody gets such \
                                a certificate for a host of his own",
            ));
        }
        let verifies = matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull);
        let roots = match roots {
            Some("system") => Roots::System,
            Some(path) => Roots::File(path.to_owned()),
            None => match existing("root.crt") {
                Some(path) => Roots::File(path),
                None if verifies => Roots::Mozilla,
                None => Roots::Any,
            },
        };
        let is_direct = self.get("sslnegotiation") == Some("direct");
        if is_direct && matches!(mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer) {
            return Err(invalid("has sslnegotiation=direct with a weaker sslmode; use sslmode=require or stronger"));
        }
        let version = |name| self.get(name).unwrap_or_default().to_ascii_lowercase();
        let versions =
            match (version("ssl_min_protocol_version").as_str(), version("ssl_max_protocol_version").as_str()) {
                ("tlsv1.3", "" | "tlsv1.3") => &VERSIONS[..1],
                ("" | "tlsv1" | "tlsv1.1" | "tlsv1.2", "tlsv1.2") => &VERSIONS[1..],
                ("" | "tlsv1" | "tlsv1.1" | "tlsv1.2", "" | "tlsv1.3") => VERSIONS,
                _ => {
                    return Err(invalid(
                        "allows no version of TLS by ssl_min_protocol_version and ssl_max_protocol_version; \
                                    allow TLSv1.2 or TLSv1.3",
                    ));
                }
            };
        let tls = TlsOptions {
            roots,
            checks_host: mode == SslMode::VerifyFull,
            identity: self.identity(existing)?,
            sends_host: self.get("sslsni") != Some("0"),
            is_direct,
            versions,
        };
        Ok((mode, tls))
    }

    fn identity(&self, existing: impl Fn(&str) -> Option<String>) -> Result<Option<Identity>> {
        let given = |name: &str, file: &str| self.get(name).map(str::to_owned).or_else(|| existing(file));
        match (given("sslcert", "postgresql.crt"), given("sslkey", "postgresql.key")) {
            (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
            (Some(_), None) => Err(invalid(
                "has sslcert, the certificate of this machine, without its key in sslkey; if it is that of the server's \
                 authority, name it sslrootcert",
            )),
            (None, _) if self.get("sslkey").is_some() => Err(invalid("has sslkey without the certificate in sslcert")),
            (None, _) => Ok(None),
        }
    }

    /// Returns the configuration of each host, in their order, each with its password.
    pub(super) fn hosts(&self, around: &Surroundings) -> Result<Vec<Config>> {
        let list = |name| self.get(name).map(|list| list.split(',').collect::<Vec<_>>()).unwrap_or_default();
        let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
        let count = names.len().max(addresses.len());
        if (!names.is_empty() && !addresses.is_empty() && names.len() != addresses.len())
            || (ports.len() > 1 && ports.len() != count)
        {
            return Err(invalid(
                "has different numbers of hosts, host addresses and ports; name one of each for each host",
            ));
        }
        if names.iter().any(|name| name.contains(['@', ';', '='])) {
            return Err(invalid(format!("names a host with a letter that no host has; {FORM}")));
        }
        let passwords = self.passwords(around);
        (0..count)
            .map(|at| {
                let address = addresses.get(at).copied().filter(|address| !address.is_empty());
                // A certificate is compared with the name, or with the address if there is none.
                let name = names.get(at).copied().filter(|name| !name.is_empty()).or(address).unwrap_or("localhost");
                let port = ports.get(at).or(ports.first()).copied().filter(|port| !port.is_empty()).unwrap_or("5432");
                let mut one: BTreeMap<&str, &str> = BTreeMap::new();
                for (option, passed) in PASSED {
                    if let Some(value) = self.get(option) {
                        one.insert(passed, value);
                    }
                }
                one.extend([("host", name), ("port", port)]);
                match address {
                    Some(address) => one.insert("hostaddr", address),
                    None => one.remove("hostaddr"),
                };
                if let (None, Some(password)) = (one.get("password"), self.password_of(&passwords, name, port)) {
                    one.insert("password", password);
                }
                config(&one)
            })
            .collect()
    }

    /// Reads the password file: lines of `HOST:PORT:DATABASE:USER:PASSWORD`.
    fn passwords(&self, around: &Surroundings) -> Vec<Vec<String>> {
        let own = match cfg!(windows) {
            true => around.file("pgpass.conf"),
            false => around.home.as_ref().map(|home| home.join(".pgpass")),
        };
        let Some(file) = self.get("passfile").map(PathBuf::from).or(own) else { return Vec::new() };
        let Ok(text) = fs::read_to_string(&file) else { return Vec::new() };
        if self.get("password").is_some() {
            return Vec::new();
        }
        #[cfg(unix)]
        if fs::metadata(&file).is_ok_and(|file| std::os::unix::fs::MetadataExt::mode(&file) & 0o077 != 0) {
            tracing::warn!("the password file {} is not used: others may read it; `chmod 600` it", file.display());
            return Vec::new();
        }
        text.lines().filter(|line| !line.starts_with('#')).map(fields).filter(|fields| fields.len() == 5).collect()
    }

    fn password_of<'p>(&self, passwords: &'p [Vec<String>], host: &str, port: &str) -> Option<&'p str> {
        let of_system = || env::var("USER").or_else(|_| env::var("USERNAME")).unwrap_or_default();
        let user = self.get("user").map_or_else(of_system, str::to_owned);
        let database = self.get("dbname").unwrap_or(&user);
        // Those of a socket in the usual place are called so.
        let host = if matches!(host, "/tmp" | "/var/run/postgresql") { "localhost" } else { host };
        let wanted = [host, port, database, &user];
        let fits = |line: &&Vec<String>| line.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        passwords.iter().find(fits).map(|line| line[4].as_str())
    }
}

/// How TLS is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

fn config(options: &BTreeMap<&str, &str>) -> Result<Config> {
    let quoted =
        |(name, value): (&&str, &&str)| format!("{name}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
    let parse = |text: &str| text.parse::<Config>().ok();
    let all: Vec<String> = options.iter().map(quoted).collect();
    parse(&all.join(" ")).ok_or_else(|| {
        let wrong = options.keys().zip(&all).find(|(_, option)| parse(option).is_none());
        let name = wrong.map_or("an option", |(name, _)| name);
        invalid(format!("has a value of {name} that is not valid; {FORM}"))
    })
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.:_".contains(letter))
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn is_ignored(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    IGNORED.contains(&name.as_str()) || (name == "sslsni" && value != "0")
}

/// Reads what follows the scheme of a URL.
fn url(scheme: &str, rest: &str) -> Result<Vec<(String, String)>> {
    // SQLAlchemy names a driver after a plus sign, and JDBC and Spring themselves first.
    let protocol = scheme.strip_prefix("jdbc:").unwrap_or(scheme);
    let protocol = protocol.split('+').next().unwrap_or_default();
    if !["postgres", "postgresql", "pgsql", "postgis"].contains(&protocol) {
        return Err(invalid(format!("is not one of Postgres; {FORM}")));
    }
    let broken = || invalid(format!("cannot be read; {FORM}"));
    let mut pairs = Vec::new();
    let mut add = |name: &str, text: &str| -> Result<()> {
        if !text.is_empty() {
            pairs.push((name.to_owned(), percent_decode(text).ok_or_else(broken)?));
        }
        Ok(())
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, rest) = match authority.contains('@') {
        true => rest.split_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest)),
        false => (None, rest),
    };
    if let Some(user) = user {
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        add("user", user)?;
        add("password", password)?;
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        let (name, port) = match host.strip_prefix('[') {
            Some(inside) => inside.split_once(']').ok_or_else(broken)?,
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        names.push(name);
        ports.push(if port.is_empty() { "" } else { port.strip_prefix(':').ok_or_else(broken)? });
    }
    if !hosts.is_empty() {
        add("host", &names.join(","))?;
    }
    if ports.iter().any(|port| !port.is_empty()) {
        add("port", &ports.join(","))?;
    }
    add("dbname", database)?;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or_else(broken)?;
        pairs.push((name.to_owned(), percent_decode(value).ok_or_else(broken)?));
    }
    Ok(pairs)
}

/// Reads keywords and values: `NAME=VALUE NAME='A VALUE'`.
fn words(text: &str) -> Result<Vec<(String, String)>> {
    let broken = || invalid(format!("cannot be read; {FORM}"));
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(broken)?;
        let name = name.trim_end();
        if !is_word(name) {
            return Err(broken());
        }
        let after = after.trim_start();
        let is_quoted = after.starts_with('\'');
        let mut letters = after.char_indices().skip(usize::from(is_quoted));
        let (mut value, mut end) = (String::new(), None);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
                '\'' if is_quoted => end = Some(at + 1),
                letter if !is_quoted && letter.is_whitespace() => end = Some(at),
                letter => value.push(letter),
            }
            if end.is_some() {
                break;
            }
        }
        if is_quoted && end.is_none() {
            return Err(broken());
        }
        pairs.push((name.to_owned(), value));
        rest = after[end.unwrap_or(after.len())..].trim_start();
    }
    Ok(pairs)
}

/// The fields of a line of a password file.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut().expect("there is one").extend(letters.next()),
            letter => fields.last_mut().expect("there is one").push(letter),
        }
    }
    fields
}

/// Returns `None` if an escape is not valid.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let (code, tail) = tail.split_first_chunk::<2>()?;
            bytes.push(u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok().filter(|byte| *byte != 0)?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Surroundings = Surroundings { variable: |_| None, home: None };

    fn options(address: &str) -> Options {
        Options::read(address, &NOWHERE).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    #[test]
    fn addresses_of_many_programs_are_one() {
        for address in [
            "postgres://u:p%40s@h:6543/d",
            "postgresql+psycopg://u:p%40s@h:6543/d?prepared_statement_cache_size=0",
            "postgresql+asyncpg://u:p%40s@h:6543/d",
            "jdbc:postgresql://h:6543/d?user=u&password=p%40s&prepareThreshold=0",
            "postgresql://u:p%40s@h:6543/d?pgbouncer=true&schema=public&supa=base-pooler.x&pool_timeout=3",
            "host=h port = 6543 user='u' password=p@s dbname=d",
            "host=h port=6543 user=u password='p\\@s' dbname=d client_encoding=utf8",
        ] {
            let options = options(address);
            let hosts = options.hosts(&NOWHERE).unwrap();
            assert_eq!(hosts.len(), 1);
            assert_eq!((hosts[0].get_user(), hosts[0].get_password()), (Some("u"), Some(&b"p@s"[..])), "{address}");
            assert_eq!((hosts[0].get_dbname(), hosts[0].get_ports()), (Some("d"), &[6543][..]), "{address}");
        }
        let neon = options(
            "postgres://u:p@h/d?sslmode=require&channel_binding=require&options=endpoint%3Dep-cool&connection_limit=3",
        );
        assert_eq!(neon.hosts(&NOWHERE).unwrap()[0].get_options(), Some("endpoint=ep-cool"));
        assert_eq!((neon.max_connections().unwrap(), neon.tls(&NOWHERE).unwrap().0), (Some(3), SslMode::Require));
        let several = options("postgres://u@one:1,[::1],%2Frun%2Fpg:3/d?target_session_attrs=primary");
        assert_eq!(
            several.hosts(&NOWHERE).unwrap().iter().map(|host| host.get_ports()[0]).collect::<Vec<_>>(),
            [1, 5432, 3]
        );
    }

    #[test]
    fn sslmode_and_its_roots_mean_what_they_mean_in_libpq() {
        let tls = |query: &str| options(&format!("postgres://h/d?{query}")).tls(&NOWHERE).unwrap();
        for (query, mode, roots, checks_host) in [
            ("", SslMode::Prefer, Roots::Any, false),
            ("ssl=true", SslMode::Require, Roots::Any, false),
            ("sslmode=no-verify", SslMode::Require, Roots::Any, false),
            ("sslmode=require&sslrootcert=%2Fa%20b", SslMode::Require, Roots::File("/a b".into()), false),
            ("sslmode=verify-ca", SslMode::VerifyCa, Roots::Mozilla, false),
            ("sslmode=verify-full", SslMode::VerifyFull, Roots::Mozilla, true),
            ("sslrootcert=system", SslMode::VerifyFull, Roots::System, true),
            ("sslaccept=strict&sslmode=require", SslMode::VerifyFull, Roots::Mozilla, true),
            ("sslaccept=accept_invalid_certs", SslMode::Prefer, Roots::Any, false),
        ] {
            let (found, tls) = tls(query);
            assert_eq!((found, &tls.roots, tls.checks_host), (mode, &roots, checks_host), "{query}");
        }
    }

    #[test]
    fn an_error_says_what_to_do_and_has_no_password() {
        for (address, expected) in [
            ("", "names no host"),
            ("postgres://u:secret@h:port/d", "value of port"),
            ("postgres://u:secret@/d", "names no host"),
            ("host=h password=secret port=x", "value of port"),
            ("postgres://u:secret@h/d?sslmode=maybe", "sslmode"),
            ("postgres://u:secret@h/d?fond=4", "\"fond\""),
            ("postgres://u:p%zz@h/d", "cannot be read"),
            ("postgres://u:a@secret@h/d", "no host has"),
            ("postgres://u:a/b?secret=1&b@h/d", "cannot be read"),
            ("postgres://h/d?user=u&password=a&secret=1", "not known"),
            ("host=h password=a secret=b", "not known"),
            ("host=h password=a secret", "cannot be read"),
            ("Host=h;Username=u;Password=secret", "no host has"),
            ("mysql://u:secret@h/d", "not one of Postgres"),
            ("postgres://u:secret@h/d?max_connections=0", "max_connections"),
            ("postgres://u:secret@h/d?statement_timeout=2s", "options=-c"),
            ("postgres://u:secret@h/d?sslcrl=x", "leave it out"),
            ("postgres://u:secret@h/d?target_session_attrs=standby", "name the primary"),
            ("postgres://u:secret@h/d?sslrootcert=system&sslmode=require", "verify-full"),
            ("postgres://u:secret@h/d?sslnegotiation=direct", "sslmode=require"),
            ("postgres://u:secret@h/d?sslcert=x", "sslrootcert"),
            ("postgres://u:secret@a,b,c/d?port=1,2", "different numbers"),
            ("postgres://u:secret@h/d?service=x", "pg_service.conf"),
        ] {
            let read = Options::read(address, &NOWHERE);
            let used = read.and_then(|options| {
                options.max_connections()?;
                options.tls(&NOWHERE)?;
                options.hosts(&NOWHERE)
            });
            let error = used.err().unwrap_or_else(|| panic!("{address} is valid")).to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{address}: {error}");
        }
    }

    #[test]
    fn what_an_address_leaves_out_is_in_the_surroundings() {
        let home = tempfile::tempdir().unwrap();
        let variable = |name: &str| match name {
            "PGHOST" => Some("elsewhere".to_owned()),
            "PGUSER" => Some("ada".to_owned()),
            "PGSERVICE" => Some("mine".to_owned()),
            _ => None,
        };
        let around = Surroundings { variable, home: Some(home.path().to_owned()) };
        let services =
            "# a comment\n[other]\nhost=wrong\n[mine]\nhost=one,two\nport=7\ndbname=memory\n[mine]\nhost=late\n";
        fs::write(home.path().join(".pg_service.conf"), services).unwrap();
        let file = home.path().join(".pgpass");
        fs::write(&file, "# no\none:*:memory:ada:a\\:b\n*:7:*:ada:c:d\n").unwrap();
        let passwords = |address: &str| {
            let hosts = Options::read(address, &around).unwrap().hosts(&around).unwrap();
            let password = |host: &Config| host.get_password().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
            hosts.iter().map(password).collect::<Vec<_>>()
        };
        #[cfg(unix)]
        let protect = |mode| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        #[cfg(unix)]
        protect(0o600);
        assert_eq!(passwords("postgres://"), [Some("a:b".to_owned()), Some("c:d".to_owned())]);
        assert_eq!(passwords("host=three port=8"), [None]);
        assert_eq!(passwords("postgres://:p@one"), [Some("p".to_owned())]);
        #[cfg(unix)]
        {
            protect(0o640);
            assert_eq!(passwords("postgres://"), [None, None]);
        }
    }
}
