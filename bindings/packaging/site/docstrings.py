"""The stubs of the extension module have the types, and the module has the descriptions that `help` shows: here they come together."""

import importlib
import inspect

import griffe


class Docstrings(griffe.Extension):
    def on_package(self, *, pkg, **_):
        describe(pkg["_mnemon"], importlib.import_module(f"{pkg.name}._mnemon"))


def describe(described, thing):
    for name, member in described.members.items():
        found = getattr(thing, name, None)
        if member.is_alias or found is None:
            continue
        if (member.is_class or member.is_function or member.is_attribute) and not member.docstring:
            # A class's own, not what it inherits from `object`; of properties the getter's.
            text = getattr(found, "__doc__", None)
            if text and text != getattr(object, name, object).__doc__ and text != type(found).__doc__:
                member.docstring = griffe.Docstring(inspect.cleandoc(text), parent=member)
        if member.is_class:
            describe(member, found)
            # The page shows the arguments of a class from its `__init__`.
            if "__new__" in member.members and "__init__" not in member.members:
                member.set_member("__init__", member.members["__new__"])
                member.del_member("__new__")
