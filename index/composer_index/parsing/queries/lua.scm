(function_declaration name: (_) @name body: (_)? @body) @function
(assignment_statement
  (variable_list . name: [(identifier) (dot_index_expression)] @name .)
  (expression_list . value: (function_definition body: (_)? @body) .)) @function
(chunk (variable_declaration (assignment_statement
  (variable_list name: (identifier) @name)
  (expression_list) @unless.require)) @variable)
(chunk (variable_declaration (variable_list name: (identifier) @name)) @variable)
(chunk (assignment_statement
  (variable_list name: [(identifier) (dot_index_expression)] @name)
  (expression_list) @unless.require) @variable)
(field name: (identifier) @name value: (function_definition body: (_)? @body)) @method

(function_call
  name: (identifier) @if.import
  arguments: (arguments . (string) @import))
