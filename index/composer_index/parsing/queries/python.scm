(class_definition name: (identifier) @name body: (_) @body) @class
(function_definition name: (identifier) @name body: (_) @body) @function
(decorated_definition definition: (_ name: (identifier) @name)) @outer
(type_alias_statement left: (type) @name) @type
(module (expression_statement (assignment left: (identifier) @name)) @variable)
(class_definition
  body: (block (expression_statement (assignment left: (identifier) @name)) @field))

(import_statement name: (dotted_name) @import)
(import_statement name: (aliased_import name: (dotted_name) @import))
(import_from_statement module_name: (_) @import name: (dotted_name) @member)
(import_from_statement
  module_name: (_) @import name: (aliased_import name: (dotted_name) @member))
(import_from_statement module_name: (_) @import (wildcard_import))
