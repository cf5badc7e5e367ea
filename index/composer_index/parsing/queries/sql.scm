(create_table (object_reference name: (_) @name)) @table
(create_view (object_reference name: (_) @name)) @table
(create_materialized_view (object_reference name: (_) @name)) @table
(create_function (object_reference name: (_) @name)) @function
(create_type (object_reference name: (_) @name)) @type
(create_trigger . (_) . (_) (object_reference name: (_) @name)) @function
