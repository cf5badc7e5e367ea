(class_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(generator_function_declaration name: (_) @name body: (_) @body) @function
(method_definition
  name: [(property_identifier) (private_property_identifier) (string)] @name
  body: (_) @body) @method
(program (lexical_declaration
  "const" (variable_declarator name: (_) @name value: (_) @unless.require) @constant))
(program (lexical_declaration
  "let" (variable_declarator name: (_) @name value: (_)? @unless.require) @variable))
(program (variable_declaration
  (variable_declarator name: (_) @name value: (_)? @unless.require) @variable))
(program (export_statement
  (lexical_declaration "const" (variable_declarator name: (_) @name) @constant)))
(program (export_statement [
  (lexical_declaration "let" (variable_declarator name: (_) @name) @variable)
  (variable_declaration (variable_declarator name: (_) @name) @variable)
]))
(variable_declarator
  name: (identifier) @name
  value: [
    (arrow_function body: (_) @body)
    (function_expression body: (_) @body)
    (generator_function body: (_) @body)
  ]) @function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @class
(expression_statement (assignment_expression
  left: [(identifier) (member_expression)] @name
  right: [
    (arrow_function body: (_) @body)
    (function_expression body: (_) @body)
    (generator_function body: (_) @body)
  ])) @function
(expression_statement (assignment_expression
  left: [(identifier) (member_expression)] @name
  right: (class body: (_) @body))) @class
(program (expression_statement (assignment_expression
  left: (member_expression object: (_) @if.exports) @name
  right: [(string) (template_string) (number) (regex) (object) (array) (true) (false)])) @constant)
(pair
  key: [(property_identifier) (string)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @method
(export_statement declaration: (_ name: (_) @name)) @outer
(lexical_declaration . (variable_declarator name: (_) @name) .) @outer
(variable_declaration . (variable_declarator name: (_) @name) .) @outer
(export_statement declaration: (_ . (variable_declarator name: (_) @name) .)) @outer

(import_statement source: (string) @import)
(export_statement source: (string) @import)
(call_expression
  function: [(identifier) (import)] @if.import
  arguments: (arguments . (string) @import .))
