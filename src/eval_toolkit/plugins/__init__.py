"""Names to objects, for the command line and for configuration files.

A name is one of ours, one that an installed package offers as an entry point of the group
``eval_toolkit.<kind>``, or ``package.module:object``. Python callers pass objects instead.
`PLUGIN_KINDS` lists the kinds there are.
"""

from eval_toolkit.plugins.installed import PluginInfo, installed_plugins
from eval_toolkit.plugins.kinds import PLUGIN_KINDS, PluginKind
from eval_toolkit.plugins.making import (
    call_plugin,
    finish_plugin,
    make_plugin,
    name_and_options,
    read_spec,
)
from eval_toolkit.plugins.names import available_plugins, known_name, load_plugin

__all__ = [
    "PLUGIN_KINDS",
    "PluginInfo",
    "PluginKind",
    "available_plugins",
    "call_plugin",
    "finish_plugin",
    "installed_plugins",
    "known_name",
    "load_plugin",
    "make_plugin",
    "name_and_options",
    "read_spec",
]
