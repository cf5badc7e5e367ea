; inherits: c
(class_specifier name: (_) @name body: (_) @body) @class
(field_declaration
  declarator: [
    (function_declarator)
    (pointer_declarator (function_declarator))
    (reference_declarator (function_declarator))
  ] @name
  default_value: (number_literal)) @method
(namespace_definition name: (_) @name body: (_) @body) @module
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @type
(template_declaration [(_ name: (_) @name) (_ declarator: (_) @name)]) @outer
