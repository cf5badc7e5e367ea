(function_item name: (_) @name body: (_) @body) @function
(function_signature_item name: (_) @name) @function
(struct_item name: (_) @name body: (_) @body) @class
(struct_item name: (_) @name) @class
(union_item name: (_) @name body: (_) @body) @class
(enum_item name: (_) @name body: (_) @body) @enum
(trait_item name: (_) @name body: (_) @body) @interface
(type_item name: (_) @name) @type
(mod_item name: (_) @name body: (_) @body) @module
(macro_definition name: (_) @name) @macro
(const_item name: (_) @name) @constant
(static_item name: (_) @name) @constant
(impl_item type: (type_identifier) @name body: (_) @body) @scope
(impl_item type: (generic_type type: (type_identifier) @name) body: (_) @body) @scope
(impl_item type: (scoped_type_identifier name: (_) @name) body: (_) @body) @scope

(use_declaration argument: (_) @import)
(mod_item name: (_) @import !body)
(extern_crate_declaration name: (_) @import)
