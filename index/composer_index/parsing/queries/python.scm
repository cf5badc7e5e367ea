(class_definition name: (identifier) @name body: (_) @body) @class
(function_definition name: (identifier) @name body: (_) @body) @function
(decorated_definition definition: (_ name: (identifier) @name)) @outer
(type_alias_statement left: (type) @name) @type
(module (expression_statement (assignment left: (_) @name)) @variable)
(module (expression_statement (assignment right: (assignment left: (_) @name))) @variable)
(module [
  (if_statement (block (expression_statement (assignment left: (_) @name)) @variable))
  (try_statement (block (expression_statement (assignment left: (_) @name)) @variable))
  (_ (else_clause (block (expression_statement (assignment left: (_) @name)) @variable)))
  (_ (elif_clause (block (expression_statement (assignment left: (_) @name)) @variable)))
  (_ (except_clause (block (expression_statement (assignment left: (_) @name)) @variable)))
])
(class_definition
  body: (block (expression_statement (assignment left: (_) @name)) @field))

(import_statement name: (dotted_name) @import)
(import_statement name: (aliased_import name: (dotted_name) @import))
(import_from_statement module_name: (_) @import name: (dotted_name) @member)
(import_from_statement
  module_name: (_) @import name: (aliased_import name: (dotted_name) @member))
(import_from_statement module_name: (_) @import (wildcard_import))
