-- :name cell
SELECT document, tag FROM fencepost.cell WHERE tenant = :tenant AND name = :name

-- :name cell_names
SELECT name FROM fencepost.cell
 WHERE tenant = :tenant AND substr(name, 1, length(:prefix)) = :prefix
 ORDER BY name
 LIMIT :limit

-- :name count_cells
SELECT count(*) FROM fencepost.cell WHERE tenant = :tenant

-- :name make_cell
INSERT INTO fencepost.cell (tenant, name, tag, document) VALUES (:tenant, :name, :tag, :document)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING tag

-- :name swap_cell
UPDATE fencepost.cell SET tag = :tag, document = :document
 WHERE tenant = :tenant AND name = :name AND tag = :expected
RETURNING tag

-- :name drop_cell
DELETE FROM fencepost.cell WHERE tenant = :tenant AND name = :name AND tag = :expected
RETURNING tag
