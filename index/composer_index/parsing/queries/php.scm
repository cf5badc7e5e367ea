(namespace_definition name: (_) @name body: (_) @body) @module
(class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @interface
(trait_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @enum
(function_definition name: (_) @name body: (_) @body) @function
(method_declaration name: (_) @name body: (_) @body) @method
(method_declaration name: (_) @name !body) @method
(property_declaration (property_element name: (variable_name (name) @name))) @field
(property_promotion_parameter name: (variable_name (name) @name)) @field
(const_declaration (const_element . (name) @name)) @constant
(function_call_expression
  function: (name) @if.define
  arguments: (arguments . (argument (string) @name))) @constant
(enum_case name: (_) @name) @field
(program (expression_statement
  (assignment_expression left: (variable_name (name) @name))) @variable)

(namespace_use_clause . [(qualified_name) (name)] @import)
(require_expression (_) @import)
(require_once_expression (_) @import)
(include_expression (_) @import)
(include_once_expression (_) @import)

(text) @html
