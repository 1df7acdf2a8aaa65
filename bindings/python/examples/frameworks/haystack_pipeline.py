"""A pipeline of Haystack that finds documents in mnemon, and that is saved and loaded again. Needs `haystack-ai`."""

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.document_stores.types import DuplicatePolicy

from mnemon import Engine
from mnemon.haystack import MnemonDocumentStore, MnemonTextRetriever

QUESTION = "When does Ada row?"

with Engine("memory.redb") as engine:
    store = MnemonDocumentStore(engine, "acme/handbook", path="memory.redb")
    store.write_documents(
        [
            Document(id="1", content="Ada rows on Thursday.", meta={"year": 2026}),
            Document(id="2", content="The boathouse closes at dusk.", meta={"year": 2026}),
            Document(id="3", content="Ada rowed on Mondays.", meta={"year": 2019}),
        ],
        policy=DuplicatePolicy.OVERWRITE,
    )
    pipeline = Pipeline()
    recent = {"field": "meta.year", "operator": ">=", "value": 2025}
    pipeline.add_component("find", MnemonTextRetriever(store, filters=recent, top_k=1))
    pipeline.add_component(
        "prompt", PromptBuilder("{% for one in documents %}{{ one.content }} {% endfor %}{{ question }}", required_variables="*")
    )
    pipeline.connect("find.documents", "prompt.documents")
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["mnemon.*", "haystack.*"])
    # The prompt would go to a generator, which is not part of this example.
    print(loaded.run({"find": {"query": QUESTION}, "prompt": {"question": QUESTION}})["prompt"]["prompt"])
