(document (object (pair key: (string) @name) @field))
(document (object (pair value: (object (pair key: (string) @name) @field))))
