"""examples.jsonl, mmr.jsonl: which examples LangChain's selectors choose, and what its marginal relevance does."""

import numpy
from langchain_community.example_selectors.ngram_overlap import NGramOverlapExampleSelector, ngram_overlap_score
from langchain_core.embeddings import Embeddings
from langchain_core.example_selectors import (
    LengthBasedExampleSelector,
    MaxMarginalRelevanceExampleSelector,
    SemanticSimilarityExampleSelector,
)
from langchain_core.prompts import PromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from conversations import dice, marked, text

PROMPT = PromptTemplate(input_variables=["input", "output"], template="Input: {input}\nOutput: {output}")

# Few words, so that runs of them are shared.
FEW = "the cat sat on a mat and the dog The mat. ran".split()

# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = ("no-cosine", "no-examples", "equal-similarity")

# Two scores nearer than this may be ordered by their rounding alone.
NEAR = 1e-9


def examples_of(inputs, rng):
    return [{"input": one, "output": text(rng, long=0, empty=0.1)} for one in inputs]


def chosen(selector, examples, given):
    """The numbers of the chosen examples. They are told apart as objects, since they may be equal."""
    selected = selector.select_examples({"input": given})
    numbers = {id(example): number for number, example in enumerate(examples)}
    return [numbers[id(example)] for example in selected]


def length_case(rng):
    examples = examples_of([text(rng, empty=0.1) for _ in range(rng.randint(0, 8))], rng)
    given = text(rng, long=0.2, empty=0.1)
    most = rng.choice((0, 1, rng.randint(1, 20), rng.randint(20, 120), rng.randint(20, 120)))
    selector = LengthBasedExampleSelector(examples=examples, example_prompt=PROMPT, max_length=most)
    output = chosen(selector, selector.examples, given)
    lengths = selector.example_text_lengths
    return {"kind": "length", "examples": examples, "input": given, "max_length": most, "lengths": lengths, "output": output}


def phrase(rng, most=12):
    return " ".join(rng.choice(FEW) for _ in range(rng.randint(0, most)))


def ngram_case(rng):
    given = rng.choice((phrase, text))(rng)
    inputs = [rng.choice((phrase, phrase, text))(rng) for _ in range(rng.randint(1, 7))]
    # The input itself, parts of it, and doubles.
    inputs += [given][: rng.randint(0, 1)] + [given[: len(given) // 2]][: rng.randint(0, 1)] + inputs[: rng.randint(0, 1)]
    rng.shuffle(inputs)
    examples = examples_of(inputs, rng)
    threshold = rng.choice((-1.0, -1.0, 0.0, 0.0, 0.1, 0.25, 1.0, 1.5))
    selector = NGramOverlapExampleSelector(examples=examples, example_prompt=PROMPT, threshold=threshold)
    scores = [ngram_overlap_score([given], [one]) for one in inputs]
    row = {"kind": "ngram", "examples": examples, "input": given, "threshold": threshold, "scores": scores}
    return {**row, "output": chosen(selector, selector.examples, given)}


def no_examples_case():
    selector = NGramOverlapExampleSelector(examples=[], example_prompt=PROMPT)
    row = {"kind": "ngram", "examples": [], "input": "a cat", "threshold": -1.0, "scores": []}
    try:
        return {**row, "output": selector.select_examples({"input": "a cat"})}
    except ValueError:
        return {**row, "error": "ValueError"}


def exact_vector(rng, size=7):
    """A vector of length 1 of halves, quarters or one 1: no sum of their products is rounded, so equal scores are equal."""
    vector = [0.0] * size
    parts = rng.choice(([1.0], [0.5] * 4, [0.5] * 3 + [0.25] * 4))
    for place, part in zip(rng.sample(range(size), len(parts)), parts):
        vector[place] = rng.choice((-1, 1, 1)) * part
    return vector


def any_vector(rng, size=7):
    """A vector of length 1, of 32-bit floats."""
    vector = numpy.array([rng.gauss(0, 1) for _ in range(size)])
    return [float(x) for x in (vector / numpy.linalg.norm(vector)).astype(numpy.float32)]


def some_vectors(rng, make):
    vectors = [make(rng) for _ in range(rng.randint(1, 24))]
    vectors += [vector for vector in vectors if rng.random() < 0.1]
    return vectors


def mmr_case(rng, make):
    vectors = some_vectors(rng, make)
    if rng.random() < 0.1:
        vectors[rng.randrange(len(vectors))] = [0.0] * 7
    if rng.random() < 0.2:
        vectors = [[rng.choice((1, 2, 4)) * x for x in vector] for vector in vectors]
    if rng.random() < 0.03:
        vectors = []
    query = [0.0] * 7 if rng.random() < 0.03 else make(rng)
    k, factor = rng.choice((0, 1, 2, 4, 4, 10, 30)), rng.choice((0.0, 0.25, 0.3, 0.5, 0.5, 0.5, 0.75, 0.9, 1.0))
    row = {"query": query, "vectors": vectors, "k": k, "lambda": factor}
    try:
        row["output"] = maximal_marginal_relevance(numpy.array(query), vectors, lambda_mult=factor, k=k)
    except ValueError:
        row["error"] = "ValueError"
    return marked(row, ["no-cosine"] if "error" in row else [], DEFECTS)


class Given(Embeddings):
    """Vectors by text."""

    def __init__(self, vectors):
        self.vectors = vectors

    def embed_documents(self, texts):
        return [self.vectors[one] for one in texts]

    def embed_query(self, one):
        return self.vectors[one]


def vector_case(rng, make, kind):
    """A selector over a vector store. The marginal relevance has the default lambda: the selector has no such setting."""
    vectors = [make(rng) for _ in range(rng.randint(1, 30))]
    texts = [f"example {number}" for number in range(len(vectors))]
    query = make(rng)
    examples = [{"input": one, "output": "."} for one in texts]
    options = {"k": rng.choice((0, 1, 2, 4, 4, 40))}
    if kind == "marginal":
        options["fetch_k"] = rng.choice((1, 5, 20, 20, 40))
    selector = {"similarity": SemanticSimilarityExampleSelector, "marginal": MaxMarginalRelevanceExampleSelector}[kind]
    embeddings = Given({**dict(zip(texts, vectors)), "query": query})
    selected = selector.from_examples(examples, embeddings, InMemoryVectorStore, input_keys=["input"], **options)
    output = [texts.index(example["input"]) for example in selected.select_examples({"input": "query"})]
    row = {"kind": kind, "query": query, "vectors": vectors, **options, "output": output}
    similarities = sorted(float(numpy.dot(query, vector)) for vector in vectors)
    equal = any(high - low < NEAR for low, high in zip(similarities, similarities[1:]))
    return marked(row, ["equal-similarity"] if equal else [], DEFECTS)


def example_cases(seed):
    for case in range(1, 271):
        rng = dice(seed, "examples", case)
        make = rng.choice((exact_vector, any_vector))
        kind = rng.choice(("similarity", "marginal"))
        takes_turns = (lambda: length_case(rng), lambda: ngram_case(rng), lambda: vector_case(rng, make, kind))
        yield {"case": case, "seed": seed, **takes_turns[case % 3]()}
    yield {"case": 271, "seed": seed, **marked(no_examples_case(), ["no-examples"], DEFECTS)}


def mmr_cases(seed):
    for case in range(1, 91):
        rng = dice(seed, "mmr", case)
        yield {"case": case, "seed": seed, **mmr_case(rng, rng.choice((exact_vector, any_vector)))}
