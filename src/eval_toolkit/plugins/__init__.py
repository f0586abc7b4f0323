"""Resolution of plugin names, for the command line and configuration files.

A name denotes a built-in object, an entry point of an installed package in the group
``eval_toolkit.<kind>``, or ``package.module:object``, which may be typed by the user but not
read from a file (`Origin`). Python callers pass objects instead.
`PLUGIN_KINDS` lists the kinds of plugins.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.plugins.construction import *
    from eval_toolkit.plugins.installed import *
    from eval_toolkit.plugins.kinds import *
    from eval_toolkit.plugins.names import *
    from eval_toolkit.plugins.origins import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "installed": "PluginInfo installed_plugins",
        "kinds": "PLUGIN_KINDS PluginKind",
        "construction": "call_plugin finish_plugin make_plugin name_and_options read_spec",
        "names": "available_plugins known_name load_plugin",
        "origins": "TYPED Origin making origin_in_force read_from refuse_address user_hosts",
    },
)
