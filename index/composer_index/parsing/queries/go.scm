(function_declaration name: (_) @name body: (_) @body) @function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @owner))
  name: (_) @name
  body: (_) @body) @method
(type_declaration (type_spec name: (_) @name type: (struct_type) @body) @class)
(type_declaration (type_spec name: (_) @name type: (interface_type) @body) @interface)
(type_declaration (type_spec name: (_) @name) @type)
(type_declaration (type_alias name: (_) @name) @type)
(type_declaration . "type" . (type_spec name: (_) @name) .) @outer
(source_file (const_declaration (const_spec name: (_) @name) @constant))
(source_file (var_declaration (var_spec name: (_) @name) @variable))
(source_file (var_declaration (var_spec_list (var_spec name: (_) @name) @variable)))

(import_spec path: (_) @import)
