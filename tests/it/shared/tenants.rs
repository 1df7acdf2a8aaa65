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
