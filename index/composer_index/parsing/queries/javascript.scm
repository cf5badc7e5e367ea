(class_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(method_definition
  name: [(property_identifier) (private_property_identifier) (string)] @name
  body: (_) @body) @method
(field_definition property: (property_identifier) @name) @field
(field_definition
  property: (property_identifier) @name
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

(import_statement source: (string) @import)
(export_statement source: (string) @import)
(call_expression
  function: [(identifier) (import)] @if.import
  arguments: (arguments . (string) @import .))
