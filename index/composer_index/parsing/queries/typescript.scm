; inherits: ecmascript
(public_field_definition
  name: [(property_identifier) (private_property_identifier)] @name) @field
(public_field_definition
  name: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
(required_parameter (accessibility_modifier) pattern: (identifier) @name) @field
(abstract_class_declaration name: (_) @name body: (_) @body) @class
(abstract_method_signature name: (_) @name) @method
(interface_declaration name: (_) @name body: (_) @body) @interface
(property_signature name: (property_identifier) @name) @field
(method_signature name: (property_identifier) @name) @method
(enum_declaration name: (_) @name body: (_) @body) @enum
(enum_body name: (_) @name @constant)
(enum_assignment name: (_) @name) @constant
(type_alias_declaration name: (_) @name) @type
(internal_module name: (_) @name body: (_) @body) @module
(module name: (_) @name body: (_) @body) @module
(function_signature name: (_) @name) @function
(program (ambient_declaration [
  (lexical_declaration (variable_declarator name: (_) @name) @variable)
  (variable_declaration (variable_declarator name: (_) @name) @variable)
]))
(ambient_declaration (_ name: (_) @name)) @outer

(import_require_clause source: (string) @import)
