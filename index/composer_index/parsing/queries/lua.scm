(function_declaration name: (_) @name body: (_)? @body) @function
(assignment_statement
  (variable_list . name: (_) @name .)
  (expression_list . value: (function_definition body: (_)? @body) .)) @function
(chunk (variable_declaration (assignment_statement
  (variable_list . name: (identifier) @name))) @variable)
(field name: (identifier) @name value: (function_definition body: (_)? @body)) @method

(function_call
  name: (identifier) @if.import
  arguments: (arguments . (string) @import))
