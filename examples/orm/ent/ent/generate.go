package ent

// With the feature sql/execquery, a transaction of ent runs statements that ent did not make.
//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/execquery ./schema
