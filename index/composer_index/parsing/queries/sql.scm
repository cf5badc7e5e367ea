(create_table (object_reference name: (_) @name)) @table
(create_view (object_reference name: (_) @name)) @table
(create_materialized_view (object_reference name: (_) @name)) @table
(column_definition name: (_) @name) @field
(create_index column: (identifier) @name) @field
(create_function (object_reference name: (_) @name)) @function
(create_type (object_reference name: (_) @name)) @type
(create_trigger (keyword_trigger) . (object_reference name: (_) @name)) @function
(create_schema (identifier) @name) @module
(create_sequence (object_reference name: (_) @name)) @field
