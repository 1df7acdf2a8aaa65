import mnemon

with mnemon.Engine("memory.redb") as engine:
    engine.put("acme/user-42", [
        mnemon.Message("I moved my rowing lesson to Thursday morning.", session="monday", name="Ada"),
        mnemon.Message("Noted: rowing on Thursday morning.", "assistant", session="monday"),
        mnemon.Message("My sister's bakery opens in June.", session="monday", name="Ada"),
    ])  # durable, and found by its words from here on
    engine.flush()  # found by meaning from here on; otherwise a second later
    for hit in engine.recall("acme/user-42", "When does she go rowing?", k=2):
        print(f"{hit.score:.2f} {hit.message.session} {hit.message.text}")
