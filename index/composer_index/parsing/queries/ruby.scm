(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(alias name: (_) @name) @function
(call
  !receiver
  method: (identifier) @if.method
  arguments: (argument_list . (simple_symbol) @name)) @function
(call
  !receiver
  method: (identifier) @if.attribute
  arguments: (argument_list (simple_symbol) @name)) @field
(assignment left: [(constant) (left_assignment_list)] @name) @constant
(operator_assignment left: (constant) @name) @constant
(program (assignment left: (global_variable) @name) @variable)

(call
  method: (identifier) @if.import
  arguments: (argument_list . (string) @import))
