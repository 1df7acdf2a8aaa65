//! TLS, passwords and addresses beside libpq: each row of a table is tried by the command and by `psql`, on the
//! distribution's PostgreSQL, and both must succeed or both fail.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use assert_cmd::cargo::CommandCargoExt;

use crate::support::{
    Db,
    postgres::{Server, query},
    skipped,
};

/// A server with TLS, and a folder of certificates, which is also the home of the programs.
struct Place {
    server: Server,
    folder: tempfile::TempDir,
    database: String,
}

/// What a server does: those who connect with TLS and without, and how they show who they are.
const OPEN: &str = "hostssl all all all trust\nhostnossl all all all trust\n";

/// An address, variables of the environment, and whether who uses them connects.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);

impl Place {
    /// `None`, visibly, where there is no openssl, psql or PostgreSQL.
    fn new() -> Option<Self> {
        let has = |program: &str, argument: &str| Command::new(program).arg(argument).output().is_ok();
        if !has("openssl", "version") || !has("psql", "--version") {
            skipped("TLS beside libpq: no openssl, or no psql");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        openssl(
            folder.path(),
            &[
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key",
                "-out", "ca.crt",
            ],
        );
        openssl(
            folder.path(),
            &[
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=ca",
                "-keyout",
                "other.key",
                "-out",
                "other.crt",
            ],
        );
        let place = |name: &str| folder.path().join(name);
        let server = Server::distribution(&place("ca.crt"), &place("ca.key"))?;
        let name = server.database();
        query(&name, "CREATE ROLE ada LOGIN SUPERUSER PASSWORD 'hunter2'", &[]);
        let database = name.rsplit('/').next().unwrap().to_owned();
        let place = Place { server, folder, database };
        place.install("ca.crt", "root.crt");
        let settings = place.server.data().join("postgresql.conf");
        let text = fs::read_to_string(&settings).unwrap() + "ssl_ca_file = 'root.crt'\n";
        fs::write(&settings, text).unwrap();
        Some(place)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Copies a file into the folder of the server, for the server alone.
    fn install(&self, from: &str, to: &str) {
        let data = self.server.data();
        let owner = fs::metadata(&data).unwrap();
        let to = data.join(to);
        fs::copy(self.folder.path().join(from), &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&to, Some(owner.uid()), Some(owner.gid())).unwrap();
    }

    /// Makes a certificate `name.crt` with its key, signed by an authority, with extensions or, without them, of X.509 v1.
    fn sign(&self, name: &str, subject: &str, kind: &[&str], authority: &str, extensions: &str) {
        self.sign_with("-sha256", name, subject, kind, authority, extensions);
    }

    fn sign_with(&self, hash: &str, name: &str, subject: &str, kind: &[&str], authority: &str, extensions: &str) {
        let folder = self.folder.path();
        let file = |kind: &str| format!("{name}.{kind}");
        let request: [&[&str]; 3] =
            [&["req", "-new", "-nodes", "-subj", subject], kind, &["-keyout", &file("key"), "-out", &file("csr")]];
        openssl(folder, &request.concat());
        fs::write(folder.join("extensions"), extensions).unwrap();
        let (certificate, key) = (format!("{authority}.crt"), format!("{authority}.key"));
        let (request, signed) = (file("csr"), file("crt"));
        let by: &[&str] = match authority == name {
            true => &["-signkey", &key],
            false => &["-CA", &certificate, "-CAkey", &key, "-CAcreateserial"],
        };
        let with: &[&str] = if extensions.is_empty() { &[] } else { &["-extfile", "extensions"] };
        let sign: &[&str] = &["x509", "-req", hash, "-days", "2", "-in", &request, "-out", &signed];
        openssl(folder, &[sign, by, with].concat());
        fs::set_permissions(folder.join(file("key")), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Lets the server have another certificate and other rules.
    fn serve(&self, certificate: &str, rules: &str) {
        self.install(&format!("{certificate}.crt"), "server.crt");
        self.install(&format!("{certificate}.key"), "server.key");
        // The last line is for this test.
        let rules = format!("local all all trust\nhost postgres owner 127.0.0.1/32 trust\n{rules}");
        fs::write(self.server.data().join("pg_hba.conf"), rules).unwrap();
        let admin = self.server.address("postgres");
        let loaded = || query(&admin, "SELECT pg_conf_load_time()::text", &[])[0].get::<_, String>(0);
        let before = loaded();
        query(&admin, "SELECT pg_reload_conf()", &[]);
        let began = Instant::now();
        // A new session shows the time after everything was loaded.
        while loaded() == before {
            assert!(began.elapsed() < Duration::from_secs(30), "the server does not load its files");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Fills in the port, the database and the folder.
    fn fill(&self, text: &str) -> String {
        let port = self.server.port().to_string();
        let text = text.replace("PORT", &port).replace("DB", &self.database);
        text.replace("FOLDER", self.folder.path().to_str().unwrap())
    }

    fn command(&self, mut command: Command, variables: &[(&str, &str)]) -> Command {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG") || name == "MNEMON_SHARED") {
            command.env_remove(name);
        }
        command.env("HOME", self.folder.path()).env("PGCONNECT_TIMEOUT", "10");
        command.envs(variables.iter().map(|(name, value)| (name, self.fill(value))));
        command
    }

    /// Connects by the command. Returns what it says about an error.
    fn mnemon(&self, address: &str, variables: &[(&str, &str)]) -> Result<(), String> {
        let db = Db::new();
        let mut command = self.command(Command::cargo_bin("mnemon").unwrap(), variables);
        let output = command
            .args(["namespaces", "--db"])
            .arg(&db.path)
            .args(["--shared", &self.fill(address)])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("hunter2"), "{text}");
        output.status.success().then_some(()).ok_or(text)
    }

    /// Connects by libpq.
    fn psql(&self, address: &str, variables: &[(&str, &str)]) -> Result<(), String> {
        let address = self.fill(address);
        let output = self
            .command(Command::new("psql"), variables)
            .args(["-X", "-w", &address, "-c", "SELECT 1"])
            .output()
            .unwrap();
        output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Compares rows of an address, variables, and whether they connect.
    fn check(&self, what: &str, rows: &[Row]) {
        for (address, variables, expected) in rows {
            let (ours, theirs) = (self.mnemon(address, variables), self.psql(address, variables));
            println!("{what}: {address} {variables:?}: {}", if *expected { "connects" } else { "is refused" });
            assert_eq!(theirs.is_ok(), *expected, "psql, {what}, {address} {variables:?}: {theirs:?}");
            assert_eq!(ours.is_ok(), *expected, "{what}, {address} {variables:?}: {ours:?}");
        }
    }
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let made = Command::new("openssl").current_dir(folder).args(arguments).output().unwrap();
    assert!(made.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
}

const RSA: &[&str] = &["-newkey", "rsa:2048"];
const P521: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"];
const FOR_LOCALHOST: &str = "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n";

#[test]
fn certificates_are_verified_as_by_libpq() {
    let Some(place) = Place::new() else { return };
    const LOCALHOST: &str = "postgres://ada@localhost:PORT/DB";
    let at = |host: &str, query: &str| LOCALHOST.replace("localhost", host) + query;
    let check = |what: &str, rows: &[(&str, &str, bool)]| {
        for (host, query, expected) in rows {
            place.check(what, &[(&at(host, query), &[], *expected)]);
        }
    };
    place.sign("leaf", "/CN=anything", RSA, "ca", FOR_LOCALHOST);
    place.serve("leaf", OPEN);
    check(
        "signed by an authority",
        &[
            ("localhost", "", true),
            ("localhost", "?sslmode=disable", true),
            ("localhost", "?sslmode=require", true),
            ("localhost", "?sslmode=require&sslrootcert=FOLDER/ca.crt", true),
            ("localhost", "?sslmode=require&sslrootcert=FOLDER/other.crt", false),
            ("localhost", "?sslmode=prefer&sslrootcert=FOLDER/other.crt", true),
            ("localhost", "?sslmode=verify-ca&sslrootcert=FOLDER/other.crt", false),
            ("127.0.0.1", "?sslmode=verify-ca&sslrootcert=FOLDER/ca.crt", true),
            ("127.0.0.1", "?sslmode=verify-full&sslrootcert=FOLDER/ca.crt", false),
            ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/ca.crt", true),
            ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/leaf.crt", false),
            ("anything", "?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert=FOLDER/ca.crt", false),
            ("localhost", "?ssl_min_protocol_version=TLSv1.3&sslmode=require", true),
            ("localhost", "?ssl_max_protocol_version=TLSv1.2&sslmode=verify-full&sslrootcert=FOLDER/ca.crt", true),
        ],
    );
    let error = place.mnemon(&at("localhost", "?sslmode=verify-full"), &[]).unwrap_err();
    assert!(error.contains("sslrootcert"), "{error}");
    // libpq 15 has no roots of the system.
    let system = at("localhost", "?sslrootcert=system");
    assert_eq!(place.mnemon(&system, &[("SSL_CERT_FILE", "FOLDER/ca.crt")]), Ok(()));
    let error = place.mnemon(&system, &[("SSL_CERT_FILE", "FOLDER/other.crt")]).unwrap_err();
    assert!(error.contains("sslrootcert"), "{error}");

    place.sign("version1", "/CN=localhost", RSA, "ca", "");
    let text =
        Command::new("openssl").args(["x509", "-noout", "-text", "-in", &place.path("version1.crt")]).output().unwrap();
    if String::from_utf8_lossy(&text.stdout).contains("Version: 1 ") {
        place.serve("version1", OPEN);
        check(
            "X.509 v1",
            &[
                ("localhost", "?sslmode=require", true),
                ("localhost", "?sslmode=require&ssl_max_protocol_version=TLSv1.2", true),
                ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/ca.crt", true),
                ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/ca.crt&ssl_max_protocol_version=TLSv1.2", true),
                ("localhost", "?sslmode=verify-ca&sslrootcert=FOLDER/other.crt", false),
                ("127.0.0.1", "?sslmode=verify-full&sslrootcert=FOLDER/ca.crt", false),
                ("127.0.0.1", "?sslmode=verify-ca&sslrootcert=FOLDER/ca.crt", true),
            ],
        );
        place.sign("own1", "/CN=localhost", RSA, "own1", "");
        place.serve("own1", OPEN);
        check("X.509 v1, signed by itself", &[("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/own1.crt", true)]);
    } else {
        skipped("certificates of X.509 v1: this openssl makes none");
    }

    // As PostgreSQL's manual makes one.
    let subject = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "own.key",
        "-out",
        "own.crt",
    ];
    openssl(place.folder.path(), &subject);
    place.serve("own", OPEN);
    check(
        "signed by itself",
        &[
            ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/own.crt", true),
            ("127.0.0.1", "?sslmode=verify-full&sslrootcert=FOLDER/own.crt", false),
            ("localhost", "?sslmode=verify-ca&sslrootcert=FOLDER/ca.crt", false),
        ],
    );

    place.sign("star", "/CN=*.example", RSA, "ca", "basicConstraints=CA:FALSE\n");
    place.serve("star", OPEN);
    let hosts = [("db.example", true), ("a.db.example", false), ("example", false)];
    for (host, expected) in hosts {
        check(
            "a star in the common name",
            &[(host, "?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert=FOLDER/ca.crt", expected)],
        );
    }

    for hash in ["-sha256", "-sha384", "-sha512"] {
        let authority: [&[&str]; 3] = [
            &["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=p521", hash],
            P521,
            &["-keyout", "p521.key", "-out", "p521.crt"],
        ];
        openssl(place.folder.path(), &authority.concat());
        place.sign_with(hash, "of521", "/CN=localhost", P521, "p521", FOR_LOCALHOST);
        place.serve("of521", OPEN);
        check(
            "P-521",
            &[
                ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/p521.crt", true),
                ("localhost", "?sslmode=verify-full&sslrootcert=FOLDER/ca.crt", false),
            ],
        );
    }
}

#[test]
fn rules_and_identities_are_those_of_libpq() {
    let Some(place) = Place::new() else { return };
    place.sign("leaf", "/CN=localhost", RSA, "ca", FOR_LOCALHOST);
    place.sign("ada", "/CN=ada", RSA, "ca", "basicConstraints=CA:FALSE\n");
    place.sign("eve", "/CN=ada", RSA, "other", "basicConstraints=CA:FALSE\n");
    fs::copy(place.path("ada.key"), place.path("open.key")).unwrap();
    fs::set_permissions(place.path("open.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let check = |what: &str, rows: &[(&str, bool)]| {
        for (query, expected) in rows {
            place.check(what, &[(&format!("postgres://ada@localhost:PORT/DB{query}"), &[], *expected)]);
        }
    };
    place.serve("leaf", "hostssl all all all trust\n");
    let rows = [
        ("", true),
        ("?sslmode=disable", false),
        ("?sslmode=allow", true),
        ("?sslmode=require", true),
        ("?ssl=true", true),
    ];
    check("TLS only", &rows);
    place.serve("leaf", "hostnossl all all all trust\n");
    let rows = [("", true), ("?sslmode=disable", true), ("?sslmode=allow", true), ("?sslmode=require", false)];
    check("no TLS", &rows);
    place.serve("leaf", "hostssl all all all cert\n");
    check(
        "a certificate of the client",
        &[
            ("", false),
            ("?sslcert=FOLDER/ada.crt&sslkey=FOLDER/ada.key", true),
            ("?sslmode=verify-full&sslrootcert=FOLDER/ca.crt&sslcert=FOLDER/ada.crt&sslkey=FOLDER/ada.key", true),
            ("?sslmode=require&sslcert=FOLDER/eve.crt&sslkey=FOLDER/eve.key", false),
            ("?sslmode=require&sslcert=FOLDER/ada.crt&sslkey=FOLDER/open.key", false),
            ("?sslmode=require&sslcert=FOLDER/none.crt&sslkey=FOLDER/ada.key", false),
        ],
    );
    openssl(place.folder.path(), &["pkey", "-aes256", "-passout", "pass:x", "-in", "ada.key", "-out", "locked.key"]);
    fs::set_permissions(place.path("locked.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let locked = "postgres://ada@localhost:PORT/DB?sslcert=FOLDER/ada.crt&sslkey=FOLDER/locked.key";
    let error = place.mnemon(locked, &[]).unwrap_err();
    assert!(error.contains("openssl pkey"), "{error}");
    // The files in the home folder.
    let files = place.folder.path().join(".postgresql");
    fs::create_dir(&files).unwrap();
    for (from, to) in [("ada.crt", "postgresql.crt"), ("ada.key", "postgresql.key"), ("ca.crt", "root.crt")] {
        fs::copy(place.path(from), files.join(to)).unwrap();
    }
    check("files in ~/.postgresql", &[("", true), ("?sslmode=verify-full", true)]);
    fs::copy(place.path("other.crt"), files.join("root.crt")).unwrap();
    check("another root in ~/.postgresql", &[("?sslmode=require", false)]);
}

#[test]
fn passwords_and_services_are_those_of_libpq() {
    let Some(place) = Place::new() else { return };
    // Signed with a hash of 512 bits, of which the client knows no channel binding for this curve: SCRAM does without.
    let authority: [&[&str]; 3] = [
        &["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-sha512"],
        P521,
        &["-keyout", "own.key", "-out", "own.crt"],
    ];
    openssl(place.folder.path(), &authority.concat());
    place.serve("own", "hostssl all all all scram-sha-256\n");
    let write = |name: &str, text: &str, mode: u32| {
        fs::write(place.path(name), place.fill(text)).unwrap();
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    write("passwords", "# a comment\n*:*:*:eve:hunter1\nlocalhost:PORT:DB:ada:hunter2\n", 0o600);
    write("open", "*:*:*:ada:hunter2\n", 0o644);
    write(
        ".pg_service.conf",
        "[memory]\nhost=localhost\nport=PORT\ndbname=DB\nuser=ada\nsslmode=verify-full\nsslrootcert=FOLDER/own.crt\n",
        0o644,
    );
    const BARE: &str = "postgres://ada@localhost:PORT/DB";
    let all = [
        ("PGHOST", "localhost"),
        ("PGPORT", "PORT"),
        ("PGDATABASE", "DB"),
        ("PGUSER", "ada"),
        ("PGPASSWORD", "hunter2"),
    ];
    let refused_by_mode = [&all[..], &[("PGSSLMODE", "disable")]].concat();
    place.check(
        "passwords",
        &[
            (BARE, &[], false),
            (BARE, &[("PGPASSWORD", "hunter2")], true),
            (BARE, &[("PGPASSWORD", "hunter1")], false),
            ("postgres://ada:hunter2@localhost:PORT/DB", &[("PGPASSWORD", "hunter1")], true),
            (BARE, &[("PGPASSFILE", "FOLDER/passwords")], true),
            (BARE, &[("PGPASSFILE", "FOLDER/open")], false),
            ("postgres://ada@localhost:PORT/DB?passfile=FOLDER/passwords", &[], true),
            ("postgres://eve@localhost:PORT/DB", &[("PGPASSFILE", "FOLDER/passwords")], false),
            ("postgres://?service=memory", &[("PGPASSWORD", "hunter2")], true),
            ("service=memory", &[("PGPASSFILE", "FOLDER/passwords")], true),
            ("user=ada", &[("PGSERVICE", "memory"), ("PGPASSWORD", "hunter2")], true),
            ("service=none", &[("PGPASSWORD", "hunter2")], false),
            ("postgres://", &all, true),
            ("postgres://", &refused_by_mode, false),
            ("host=localhost port=PORT dbname=DB user='ada' password = 'hunter\\2'", &[], true),
        ],
    );
    // What other programs print, which libpq does not take.
    for (address, expected) in [
        ("postgresql+psycopg://ada:hunter2@localhost:PORT/DB", true),
        ("jdbc:postgresql://localhost:PORT/DB?user=ada&password=hunter2", true),
        (
            "postgres://ada:hunter2@localhost:PORT/DB?pgbouncer=true&connection_limit=2&schema=public&pool_timeout=5",
            true,
        ),
        ("postgres://ada:hunter2@localhost:PORT/DB?sslmode=no-verify&uselibpqcompat=true", true),
        ("postgres://ada:hunter2@localhost:PORT/DB?sslaccept=strict", false),
        ("postgres://ada:hunter2@localhost:PORT/DB?sslaccept=strict&sslrootcert=FOLDER/own.crt", true),
        ("postgres://ada:hunter2@localhost:PORT/DB?fond=1", false),
    ] {
        let found = place.mnemon(address, &[]);
        assert_eq!(found.is_ok(), expected, "{address}: {found:?}");
    }
}
