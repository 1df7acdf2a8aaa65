//! Two tenants in one database, each with a role that sees its own namespaces.

use mnemon::{Forget, Freshness, Message, Query};

use super::{open, try_open};
use crate::support::{
    Db, namespace,
    postgres::{query, server, try_query},
};

/// A text that must not be seen by the other tenant.
const CANARY: &str = "the canary of acme sings";

#[test]
fn a_role_sees_the_namespaces_under_its_prefix_alone() {
    let Some(server) = server() else { return };
    let address = server.database();
    let database = address.rsplit('/').next().unwrap();
    let (owner, a, b) = (Db::new(), Db::new(), Db::new());
    drop(open(&owner, &address));
    // As docs/several-machines.md has it.
    for (role, prefix) in [("acme_app", "acme"), ("globex_app", "globex")] {
        let role = format!("{role}_{database}");
        for sql in [
            format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'"),
            format!("GRANT USAGE ON SCHEMA mnemon TO {role}"),
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mnemon TO {role}"),
            format!("REVOKE INSERT, UPDATE, DELETE ON mnemon.tenants, mnemon.settings, mnemon.models FROM {role}"),
            format!("INSERT INTO mnemon.tenants VALUES ('{role}', '{prefix}')"),
        ] {
            query(&address, &sql, &[]);
        }
    }
    let of = |role: &str| address.replace("owner@", &format!("{role}_{database}:secret@"));
    let (acme, globex) = (open(&a, &of("acme_app")), open(&b, &of("globex_app")));
    let (ada, bob) = (namespace("acme/ada"), namespace("globex/bob"));
    acme.blocking().put(&ada, vec![Message::user(CANARY).with_id("c1")]).unwrap();
    acme.blocking().flush().unwrap();
    globex.blocking().put(&bob, vec![Message::user("hello from globex").with_id("g1")]).unwrap();
    // Through the engine: nothing of the other.
    assert_eq!(globex.blocking().get(&ada, "c1").unwrap(), None);
    assert_eq!(globex.blocking().recall(&ada, Query::new("canary")).unwrap().len(), 0);
    let listed = globex.blocking().namespaces(None, None, 100).unwrap().namespaces;
    assert_eq!(listed.iter().map(|found| found.namespace.as_str()).collect::<Vec<_>>(), ["globex/bob"]);
    let error = globex.blocking().put(&ada, vec![Message::user("a stranger")]).unwrap_err();
    assert!(!error.to_string().contains("canary"), "{error}");
    // By SQL, too.
    for table in ["messages", "vectors", "sessions", "documents", "leases"] {
        let found =
            query(&of("globex_app"), &format!("SELECT * FROM mnemon.{table} WHERE namespace LIKE 'acme%'"), &[]);
        assert!(found.is_empty(), "{table}");
    }
    assert!(try_query(&of("globex_app"), "INSERT INTO mnemon.tenants VALUES ('x', 'acme')", &[]).is_err());
    // A hold above the prefix binds the tenant, one of the other is not seen; each forgets its own.
    let all = open(&owner, &address);
    all.blocking().hold(&namespace("globex"), "a case").unwrap();
    all.blocking().hold(&namespace("acme/zoe"), "another case").unwrap();
    let error = globex.blocking().delete(&bob, vec!["g1".into()]).unwrap_err();
    assert!(matches!(error, mnemon::Error::LegalHold { .. }), "{error}");
    assert_eq!(globex.blocking().holds().unwrap().len(), 1);
    acme.blocking().forget(Forget::messages(&ada, ["c1"])).unwrap();
    assert_eq!(all.blocking().get(&ada, "c1").unwrap(), None);
    assert_eq!(globex.blocking().audit().unwrap().problems, [""; 0]);
    drop((acme, globex, all));
    let bytes = std::fs::read(&b.path).unwrap();
    assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "in the other tenant's file");
    drop(try_open(&b, &of("globex_app"), Freshness::Latest).unwrap());
}

/// The announcements that come on a connection while something is done.
fn heard(address: &str, act: impl FnOnce() + Send) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.block_on(async {
        let (client, mut connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
        let driven = tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
                if let tokio_postgres::AsyncMessage::Notification(message) = message {
                    let _ = sender.send(message.payload().to_owned());
                }
            }
        });
        client.batch_execute("LISTEN mnemon").await.unwrap();
        act();
        // Announcements are gathered for some milliseconds.
        for _ in 0..100 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            client.batch_execute("SELECT 1").await.unwrap();
        }
        drop(client);
        let _ = driven.await;
    });
    receiver.try_iter().collect()
}

#[test]
fn a_role_stops_nobody_and_hears_no_names() {
    let Some(server) = server() else { return };
    let address = server.database();
    let database = address.rsplit('/').next().unwrap();
    let (owner, a, b) = (Db::new(), Db::new(), Db::new());
    let all = open(&owner, &address);
    for (role, prefix) in [("acme_app", "acme"), ("globex_app", "corp/globex")] {
        let role = format!("{role}_{database}");
        for sql in [
            format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'"),
            format!("GRANT USAGE ON SCHEMA mnemon TO {role}"),
            // More than the documents say.
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mnemon TO {role}"),
            format!("INSERT INTO mnemon.tenants VALUES ('{role}', '{prefix}')"),
        ] {
            query(&address, &sql, &[]);
        }
    }
    let of = |role: &str| address.replace("owner@", &format!("{role}_{database}:secret@"));
    let (acme, globex) = (open(&a, &of("acme_app")), open(&b, &of("globex_app")));
    let (ada, bob) = (namespace("acme/ada"), namespace("corp/globex/bob"));
    acme.blocking().put(&ada, vec![Message::user("one").with_id("m1")]).unwrap();
    globex.blocking().put(&bob, vec![Message::user("two").with_id("m1")]).unwrap();
    acme.blocking().forget(Forget::messages(&ada, ["m1"])).unwrap();
    all.blocking().hold(&namespace("corp"), "a case").unwrap();
    let tenant = of("globex_app");
    let changed = |sql: &str| try_query(&tenant, &format!("{sql} RETURNING 1"), &[]).map_or(0, |rows| rows.len());
    for sql in [
        "UPDATE mnemon.nodes SET epoch = epoch + 1 WHERE role <> current_user",
        "DELETE FROM mnemon.nodes WHERE role <> current_user",
        "UPDATE mnemon.nodes SET role = 'somebody'",
        "DELETE FROM mnemon.audit",
        "UPDATE mnemon.audit SET hash = 'x'",
        "UPDATE mnemon.audit SET deleted = true",
        "DELETE FROM mnemon.namespaces",
        "UPDATE mnemon.namespaces SET version = version + 1000 WHERE name = ''",
        "UPDATE mnemon.namespaces SET version = version - 1 WHERE name = ''",
        "UPDATE mnemon.namespaces SET present = false, version = version + 1 WHERE name = ''",
        "UPDATE mnemon.namespaces SET name = 'corp/globex/x', version = version + 1 WHERE name = ''",
        "UPDATE mnemon.namespaces SET version = version + 1 WHERE name LIKE 'acme%'",
        "DELETE FROM mnemon.messages WHERE namespace LIKE 'acme%'",
        "DELETE FROM mnemon.holds",
        "UPDATE mnemon.holds SET deleted = true",
        "INSERT INTO mnemon.holds (namespace, version, deleted, held, id, reason, since) VALUES ('', 9, false, 'acme', 'x', 'x', now())",
        "INSERT INTO mnemon.holds (namespace, version, deleted, held, id, reason, since) VALUES ('', 9, false, 'cor', 'x', 'x', now())",
        "UPDATE mnemon.settings SET value = 'x'",
        "DELETE FROM mnemon.settings",
        "UPDATE mnemon.models SET state = 'previous'",
        "DELETE FROM mnemon.tenants",
        "INSERT INTO mnemon.tenants VALUES (current_user, 'acme')",
        "UPDATE mnemon.tenants SET prefix = 'acme'",
    ] {
        assert_eq!(changed(sql), 0, "{sql}");
    }
    for (table, visible) in [("tenants", 1), ("nodes", 1), ("holds", 1)] {
        assert_eq!(query(&tenant, &format!("SELECT 1 FROM mnemon.{table}"), &[]).len(), visible, "{table}");
    }
    // Everybody goes on.
    acme.blocking().put(&ada, vec![Message::user("three").with_id("m3")]).unwrap();
    globex.blocking().put(&bob, vec![Message::user("four").with_id("m4")]).unwrap();
    acme.blocking().forget(Forget::messages(&ada, ["m3"])).unwrap();
    all.blocking().release(&namespace("corp")).unwrap();
    globex.blocking().hold(&bob, "a case of its own").unwrap();
    globex.blocking().release(&bob).unwrap();
    globex.blocking().forget(Forget::messages(&bob, ["m4"])).unwrap();
    let audit = all.blocking().audit().unwrap();
    assert_eq!((audit.problems.len(), audit.entries.len()), (0, 7));
    // Announcements reach every role.
    let said = heard(&tenant, || {
        acme.blocking().put(&ada, vec![Message::user("five").in_session("monday")]).unwrap();
    });
    assert!(!said.is_empty(), "nothing was announced");
    for name in ["acme", "ada", "monday", "five"] {
        assert!(said.iter().all(|payload| !payload.contains(name)), "{said:?}");
    }
}
