// Package schema is what ent's code is generated from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is a row of the table orders.
type Order struct{ ent.Schema }

func (Order) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").MaxLen(26),
		field.String("customer").MaxLen(100),
		field.Int64("cents"),
	}
}
