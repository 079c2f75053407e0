-- :name cell
SELECT document, tag FROM fencepost.cell WHERE tenant = %(tenant)s AND name = %(name)s

-- :name cell_names
SELECT name FROM fencepost.cell
 WHERE tenant = %(tenant)s AND substr(name, 1, length(%(prefix)s)) = %(prefix)s
 ORDER BY name
 LIMIT %(limit)s

-- :name count_cells
SELECT count(*) FROM fencepost.cell WHERE tenant = %(tenant)s

-- :name make_cell
INSERT INTO fencepost.cell (tenant, name, tag, document) VALUES (%(tenant)s, %(name)s, %(tag)s, %(document)s)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING tag

-- :name swap_cell
UPDATE fencepost.cell SET tag = %(tag)s, document = %(document)s
 WHERE tenant = %(tenant)s AND name = %(name)s AND tag = %(expected)s
RETURNING tag

-- :name drop_cell
DELETE FROM fencepost.cell WHERE tenant = %(tenant)s AND name = %(name)s AND tag = %(expected)s
RETURNING tag
