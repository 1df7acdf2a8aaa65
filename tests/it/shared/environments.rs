//! The ways in which Postgres is rented, and what works in each: the table of docs/several-machines.md.

use std::{fmt::Write, ops::ControlFlow, sync::Arc, thread, time::Duration};

use mnemon::{DatabaseFile, Engine, Forget, Freshness, Query, ReindexOptions};

use super::{proxy::Proxy, try_open};
use crate::support::{
    Db, Hashing, message, namespace,
    poolers::{PgBouncer, Pooler},
    postgres::{Server, query},
    root,
};

const OPERATIONS: [&str; 8] = ["open", "share", "put", "recall", "second machine", "embed", "forget", "reindex"];

/// A change of the environment between two operations, such as a fail-over.
type Event<'e> = &'e dyn Fn();

/// Does the operations at an address. `direct` is the database without anything between. Returns a word for each: `yes`, `refused` for a clear error at opening and everything after it, or an
/// error.
fn operations(address: &str, direct: &str, event: Event<'_>) -> Vec<String> {
    let (shared, b) = (Db::new(), Db::new());
    let space = namespace("acme/ada");
    let old = shared.open();
    old.blocking()
        .put(&space, (0..30).map(|at| message(&format!("old{at}"), &format!("boat {at}"))).collect())
        .unwrap();
    drop(old);
    let mut cells = Vec::new();
    let mut note = |done: Result<(), String>| {
        let goes_on = done.is_ok();
        cells.push(done.map_or_else(|error| error, |()| "yes".to_owned()));
        goes_on
    };
    let texts = |engine: &Engine| -> mnemon::Result<usize> {
        let query = Query::new("boat").k(100).keep_duplicates().freshness(Freshness::Latest);
        Ok(engine.blocking().recall(&space, query)?.len())
    };
    let count = |found: mnemon::Result<usize>, expected: usize| match found {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(format!("{found} of {expected} messages")),
        Err(error) => Err(error.to_string()),
    };
    let said = |error: mnemon::Error| error.to_string();
    let first = Db::new();
    let machine = match try_open(&first, address, Freshness::Latest) {
        Ok(machine) => machine,
        Err(error) if error.to_string().contains("pool_mode") => return vec!["refused".into(); OPERATIONS.len()],
        Err(error) => return vec![error.to_string()],
    };
    note(Ok(()));
    let report = DatabaseFile::new(&shared.path).share(address);
    let moved = report.map_err(said).and_then(|report| count(Ok(report.messages as usize), 30));
    if !note(moved) {
        return cells;
    }
    event();
    let put = machine.blocking().put(&space, vec![message("new", "boat of a new machine")]).map(drop);
    if !note(put.map_err(said)) || !note(count(texts(&machine), 31)) {
        return cells;
    }
    let second = match try_open(&b, address, Freshness::Latest) {
        Ok(second) => second,
        Err(error) => {
            note(Err(error.to_string()));
            return cells;
        }
    };
    let seen = count(texts(&second), 31)
        .and_then(|()| {
            second.blocking().put(&space, vec![message("other", "boat of another machine")]).map(drop).map_err(said)
        })
        .and_then(|()| count(texts(&machine), 32));
    if !note(seen) {
        return cells;
    }
    let vectors = "SELECT count(DISTINCT seq) FROM mnemon.vectors WHERE model = (SELECT name || ':' || hash FROM mnemon.models \
                   WHERE state = 'serving')";
    let vectors = || count(Ok(query(direct, vectors, &[])[0].get::<_, i64>(0) as usize), 32);
    let embedded = machine.blocking().flush().map(drop).map_err(said).and_then(|()| vectors());
    if !note(embedded) {
        return cells;
    }
    let forgotten = second.blocking().forget(Forget::messages(&space, ["old7"])).map(drop).map_err(said);
    if !note(forgotten.and_then(|()| count(texts(&machine), 31))) {
        return cells;
    }
    let progress = |_| ControlFlow::Continue(());
    let reindexed = machine.blocking().reindex(Arc::new(Hashing::new(48)), ReindexOptions::default(), progress);
    let switched = reindexed.map_err(said).and_then(|report| {
        let reason = || format!("{report:?}");
        if report.switched { Ok(()) } else { Err(reason()) }
    });
    note(switched.and_then(|()| count(texts(&machine), 31)));
    drop((machine, second));
    [&first, &b].iter().for_each(|db| drop(db.assert_sound()));
    cells
}

/// Waits until a standby has all that its primary has.
fn caught_up(primary: &Server, standby: &Server) {
    let end: String = query(&primary.address("postgres"), "SELECT pg_current_wal_lsn()::text", &[])[0].get(0);
    let has = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn";
    while !query(&standby.address("postgres"), has, &[&end])[0].get::<_, bool>(0) {
        thread::sleep(Duration::from_millis(20));
    }
}

fn promote(standby: &Server) {
    query(&standby.address("postgres"), "SELECT pg_promote(true, 30)", &[]);
}

#[test]
fn each_works_as_the_documentation_says() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let name = |address: &str| address.rsplit('/').next().unwrap().to_owned();
    let nothing: Event<'_> = &|| {};
    let mut rows: Vec<(&str, Option<Vec<String>>)> = Vec::new();
    let plain = |address: String| operations(&address, &address, nothing);
    rows.push(("direct", Some(plain(server.database()))));
    for (row, which, settings) in [
        ("PgBouncer 1.24, session", PgBouncer::New, &["pool_mode = session"][..]),
        ("PgBouncer 1.24, transaction", PgBouncer::New, &["pool_mode = transaction"]),
        (
            "the same with `max_prepared_statements = 0`",
            PgBouncer::New,
            &["pool_mode = transaction", "max_prepared_statements = 0"],
        ),
        ("PgBouncer 1.18, session", PgBouncer::Old, &["pool_mode = session"]),
        ("PgBouncer 1.18, transaction", PgBouncer::Old, &["pool_mode = transaction"]),
    ] {
        let pooler = Pooler::pgbouncer(which, &server, &["owner"], settings);
        let direct = server.database();
        rows.push((row, pooler.map(|pooler| operations(&pooler.address(&name(&direct)), &direct, nothing))));
    }
    // A role with few connections.
    let postgres = server.address("postgres");
    let of_role = |role: &str, settings: &[&str]| {
        query(&postgres, &format!("CREATE ROLE {role} LOGIN"), &[]);
        query(&postgres, &format!("CREATE DATABASE {role} OWNER {role}"), &[]);
        for setting in settings {
            query(&postgres, &format!("ALTER ROLE {role} {setting}"), &[]);
        }
        server.address(role).replace("owner@", &format!("{role}@"))
    };
    let few = of_role("few", &["CONNECTION LIMIT 5"]);
    rows.push((
        "a role with 5 connections, `max_connections=2`",
        Some(operations(&format!("{few}?max_connections=2"), &few, nothing)),
    ));
    let timeouts = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"];
    let short = of_role("short", &timeouts.map(|name| format!("SET {name} = '2s'")).each_ref().map(String::as_str));
    let pause: Event<'_> = &|| thread::sleep(Duration::from_millis(2500));
    rows.push(("timeouts of 2 seconds", Some(operations(&short, &short, pause))));
    // Standbys.
    let standby = server.standby();
    let pgpool = Pooler::pgpool(&server, &standby);
    let direct = server.database();
    caught_up(&server, &standby);
    let through = |pooler: Pooler| operations(&pooler.address(&name(&direct)), &direct, nothing);
    rows.push(("Pgpool 4, reads to a standby", pgpool.map(through)));
    let set = |standbys: &str| {
        query(&postgres, &format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'"), &[]);
        query(&postgres, "SELECT pg_reload_conf()", &[]);
        thread::sleep(Duration::from_millis(300));
    };
    set("*");
    rows.push(("a synchronous standby", Some(plain(server.database()))));
    // Two fail-overs: the address names both hosts, or what it names leads to another one.
    let database = name(&server.database());
    let hosts = format!("postgres://owner@127.0.0.1:{},127.0.0.1:{}/{database}", standby.port(), server.port());
    let fail_over: Event<'_> = &|| {
        server.stop_immediately();
        promote(&standby);
    };
    rows.push(("fail-over to a standby, two hosts", Some(operations(&hosts, &standby.address(&database), fail_over))));
    let third = standby.standby();
    let proxy = Proxy::start(standby.port());
    query(&standby.address("postgres"), "CREATE DATABASE moved", &[]);
    let move_port: Event<'_> = &|| {
        caught_up(&standby, &third);
        standby.stop_immediately();
        promote(&third);
        proxy.turn_to(third.port());
        proxy.drop_all();
    };
    rows.push((
        "fail-over to a standby, a moved port",
        Some(operations(&proxy.address("moved"), &third.address("moved"), move_port)),
    ));

    let mut table = format!("| | {} |\n|{} --- |\n", OPERATIONS.join(" | "), " --- |".repeat(OPERATIONS.len()));
    let mut is_whole = true;
    for (row, cells) in &rows {
        match cells {
            Some(cells) => writeln!(table, "| {row} | {} |", cells.join(" | ")).unwrap(),
            None => is_whole = false,
        }
    }
    // Shown although the test passes.
    std::io::Write::write_all(&mut std::io::stderr(), table.as_bytes()).unwrap();
    let documented = std::fs::read_to_string(root("docs/several-machines.md")).unwrap();
    for line in table.lines() {
        assert!(documented.contains(line), "docs/several-machines.md has another row: {line}");
    }
    if is_whole {
        assert!(documented.contains(&table), "docs/several-machines.md has another table");
    }
}
