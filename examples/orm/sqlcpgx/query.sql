-- name: InsertOrder :exec
INSERT INTO orders (id, customer, cents) VALUES (sqlc.arg(id), sqlc.arg(customer), sqlc.arg(cents));
