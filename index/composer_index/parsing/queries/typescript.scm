(class_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(method_definition
  name: [(property_identifier) (private_property_identifier) (string)] @name
  body: (_) @body) @method
(public_field_definition name: (property_identifier) @name) @field
(public_field_definition
  name: (property_identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
(program (lexical_declaration "const" (variable_declarator name: (identifier) @name)) @constant)
(program (lexical_declaration "let" (variable_declarator name: (identifier) @name)) @variable)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @variable)
(program (export_statement
  (lexical_declaration (variable_declarator name: (identifier) @name)) @constant))
(lexical_declaration (variable_declarator
  name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(lexical_declaration (variable_declarator
  name: (identifier) @name
  value: (class body: (_) @body))) @class
(variable_declaration (variable_declarator
  name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(variable_declaration (variable_declarator
  name: (identifier) @name
  value: (class body: (_) @body))) @class
(expression_statement (assignment_expression
  left: [(identifier) (member_expression)] @name
  right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])) @function
(pair
  key: [(property_identifier) (string)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
(export_statement declaration: (_ name: (_) @name)) @outer
(export_statement declaration: (_ (variable_declarator name: (_) @name))) @outer

(abstract_class_declaration name: (_) @name body: (_) @body) @class
(abstract_method_signature name: (_) @name) @method
(interface_declaration name: (_) @name body: (_) @body) @interface
(enum_declaration name: (_) @name body: (_) @body) @enum
(type_alias_declaration name: (_) @name) @type
(internal_module name: (_) @name body: (_) @body) @module
(module name: (_) @name body: (_) @body) @module
(function_signature name: (_) @name) @function
(ambient_declaration (_ name: (_) @name)) @outer

(import_statement source: (string) @import)
(import_require_clause source: (string) @import)
(export_statement source: (string) @import)
(call_expression
  function: [(identifier) (import)] @if.import
  arguments: (arguments . (string) @import .))
