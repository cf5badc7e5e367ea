(function_definition name: (_) @name body: (_) @body) @function
(command name: (command_name) @if.alias argument: [(word) (concatenation)] @name) @function
(program (variable_assignment name: (variable_name) @name) @variable)
(declaration_command (variable_assignment name: (variable_name) @name)) @variable
(declaration_command ["declare" "typeset" "readonly"] (variable_name) @name) @variable

(command
  name: (command_name) @if.import
  . argument: (_) @import)
