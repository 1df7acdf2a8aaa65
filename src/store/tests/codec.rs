use crate::store::{codec::*, message_record::*, schema::*};

/// Stored databases outlive releases: cases may be added here, but these bytes never change.
#[test]
fn golden_bytes() {
    let message = MessageRecord {
        id: "m1".into(),
        session: "s".into(),
        role: 1,
        name: Some("Ada".into()),
        content: "hi".into(),
        is_json: false,
        created_at: Some(-2),
        metadata: None,
        revision: 300,
        expires_at: None,
    };
    let namespace = NamespaceRecord { id: 7, next_seq: 2, next_session: 1, messages: 2 };
    let generation = GenerationRecord {
        name: "m".into(),
        dimension: 256,
        hash: "ab".into(),
        state: GenerationState::Serving,
        layout: 17,
    };
    let check = |bytes: Vec<u8>, golden: &str| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
    };
    check(encode(&message.clone()), "4d6e0101026d31017301010341646102686900010300fb2c01");
    let expiring = MessageRecord { expires_at: Some(300), ..message.clone() };
    check(encode(&expiring), "4d6e0101026d31017301010341646102686902010300fb2c01fb5802");
    assert_eq!(decode::<MessageRecord>(&encode(&expiring)).unwrap(), expiring);
    check(encode(&namespace), "4d6e010107020102");
    check(encode(&generation), "4d6e0101016dfb00010261620111");
    let states =
        [GenerationState::Building, GenerationState::Retired, GenerationState::Previous, GenerationState::Begun];
    for (state, golden) in states.into_iter().zip(["00", "02", "03", "04"]) {
        let generation = GenerationRecord { state, ..generation.clone() };
        check(encode(&generation), &format!("4d6e0101016dfb0001026162{golden}11"));
    }
    let old = [&header(Codec::Bincode)[..], b"\x01m\xfb\x00\x01\x02ab\x01"].concat();
    let old: OldGenerationRecord = decode(&old).unwrap();
    assert_eq!(GenerationRecord::from(old), GenerationRecord { layout: 0, ..generation });
    let block = BlockRecord { state: "{}".into(), revision: 3 };
    let cursor = CursorRecord { next: 2, failed: vec![(1, "no".into())], shared: true };
    let checkpoint = CheckpointRecord {
        label: "a".into(),
        created_at: 1,
        next_seq: 9,
        buffered: vec![(0, 0), (4, 8)],
        next_batch: 2,
        messages: 9,
    };
    let old = OldMessage { record: message, position: 5 };
    check(encode(&old), "4d6e0101026d31017301010341646102686900010300fb2c0105");
    check(encode(&block), "4d6e0101027b7d03");
    check(encode(&cursor), "4d6e0101020101026e6f01");
    check(encode(&checkpoint), "4d6e0101016102090200000408 0209".replace(' ', "").as_str());
    check(encode(&OldBlock { block: None, cursor: CursorRecord::default() }), "4d6e010100000000");
    check(encode(&GraphRecord { first_delta: 2, next_delta: 300 }), "4d6e010102fb2c01");
}

#[test]
fn a_damaged_value_is_an_error() {
    let good = encode(&NamespaceRecord { id: 7, next_seq: 2, next_session: 1, messages: 2 });
    assert!(decode::<NamespaceRecord>(&good).is_ok());
    for cut in 0..good.len() {
        assert!(decode::<NamespaceRecord>(&good[..cut]).is_err(), "cut at {cut}");
    }
    let mut long = good.clone();
    long.push(0);
    assert!(decode::<NamespaceRecord>(&long).is_err());
    let mut other = good;
    other[2] = Codec::Rows as u8;
    assert!(decode::<NamespaceRecord>(&other).is_err());
    // A length for which gigabytes would be allocated.
    let huge = [&header(Codec::Bincode)[..], &[0xfd; 9]].concat();
    assert!(decode::<MessageRecord>(&huge).is_err());
}
