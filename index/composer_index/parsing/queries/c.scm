(function_definition declarator: (_) @name body: (_) @body) @function
(struct_specifier name: (_) @name body: (_) @body) @class
(union_specifier name: (_) @name body: (_) @body) @class
(enum_specifier name: (_) @name body: (_) @body) @enum
(type_definition declarator: (_) @name) @type
(field_declaration declarator: (_) @name) @field
(declaration . (_) @unless.extern declarator: (_) @name) @variable
(preproc_def name: (_) @name value: (_)) @constant
(preproc_function_def name: (_) @name) @macro
(enumerator name: (_) @name) @constant

(preproc_include path: (_) @import)
