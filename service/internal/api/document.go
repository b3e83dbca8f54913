package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// document is what the page shows of openapi.json.
type document struct {
	Info       struct{ Title, Description string }
	Operations []operation
	Schemas    []namedSchema
}

type operation struct {
	ID, Method, Path, Summary, Description, Scope, Body, Example string
	Parameters                                                   []parameter
	Answers                                                      []answerDoc
}

type parameter struct{ Name, In, Description string }

type answerDoc struct{ Status, Schema, Description string }

type namedSchema struct {
	Name   string
	Fields []fieldDoc
}

type fieldDoc struct {
	Name, Type, Description string
	Required                bool
}

// schema is what is read of a schema.
type schema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Enum        []string
	Properties  map[string]schema
	Required    []string
	Items       *schema
}

func lastPart(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// name says what a schema is, in a word or two.
func (s *schema) name() string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return lastPart(s.Ref)
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, " | ")
	case s.Items != nil:
		return "list of " + cmp.Or(s.Items.name(), "any")
	case s.Type == nil:
		return "any"
	}
	return strings.Trim(fmt.Sprint(s.Type), "[]")
}

type media map[string]*body

type body struct {
	Schema   *schema
	Examples map[string]struct {
		Value  json.RawMessage
		Status int `json:"x-status"`
	}
}

// described is what is read of an operation.
type described struct {
	Summary, Description string
	Scope                string `json:"x-scope"`
	Parameters           []parameter
	RequestBody          struct{ Content media }
	Responses            map[string]response
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     media
}

func documentOf(text []byte) *document {
	var from struct {
		Info       struct{ Title, Description string }
		Paths      map[string]map[string]described
		Components struct {
			Schemas   map[string]schema
			Responses map[string]response
		}
	}
	if err := json.Unmarshal(text, &from); err != nil {
		panic(err) // of a file that is in the binary
	}
	d := &document{Info: from.Info}
	for _, path := range slices.Sorted(maps.Keys(from.Paths)) {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if o, there := from.Paths[path][method]; there {
				for status, r := range o.Responses {
					if r.Ref != "" {
						o.Responses[status] = from.Components.Responses[lastPart(r.Ref)]
					}
				}
				d.Operations = append(d.Operations, o.operation(method, path))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from.Components.Schemas)) {
		s := from.Components.Schemas[name]
		n := namedSchema{Name: name}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			f := s.Properties[field]
			n.Fields = append(n.Fields, fieldDoc{field, f.name(), f.Description, slices.Contains(s.Required, field)})
		}
		d.Schemas = append(d.Schemas, n)
	}
	return d
}

func (o *described) operation(method, path string) operation {
	request := o.RequestBody.Content["application/json"]
	if request == nil {
		request = &body{}
	}
	op := operation{
		ID:     strings.Trim(strings.NewReplacer("/", "-", "{", "", "}", "").Replace(method+path), "-"),
		Method: strings.ToUpper(method), Path: path, Summary: o.Summary, Description: o.Description, Scope: o.Scope, Parameters: o.Parameters,
		Body: request.Schema.name(), Example: request.example(),
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		a := answerDoc{Status: status, Description: o.Responses[status].Description}
		for _, m := range o.Responses[status].Content {
			a.Schema = m.Schema.name()
		}
		op.Answers = append(op.Answers, a)
	}
	return op
}

// example is the first example that is answered with success.
func (b *body) example() string {
	for _, name := range slices.Sorted(maps.Keys(b.Examples)) {
		var indented bytes.Buffer
		if e := b.Examples[name]; e.Status < http.StatusBadRequest && json.Indent(&indented, e.Value, "", "  ") == nil {
			return indented.String()
		}
	}
	return ""
}
