package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What is refused because a route does not have it, and what is described as the route's, are the same.
func TestEachRouteIsDescribedWithWhatItTakes(t *testing.T) {
	var d struct {
		Paths map[string]map[string]struct {
			Parameters  []struct{ Name, In string }
			RequestBody *struct{}
			Responses   map[string]any
			Scope       string `json:"x-scope"`
		}
	}
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	described := 0
	routes := (&api{}).routes()
	for path, methods := range d.Paths {
		for method, op := range methods {
			described++
			pattern := strings.ToUpper(method) + " " + path
			if route, there := routes[pattern]; !there || string(route.scope) != op.Scope {
				t.Errorf("%s is described, with the scope %s, and there is %q", pattern, op.Scope, route.scope)
			}
			var query, path []string
			key := false
			for _, p := range op.Parameters {
				switch p.In {
				case "query":
					query = append(query, p.Name)
				case "path":
					path = append(path, "{"+p.Name+"}")
				case "header":
					key = key || p.Name == "Idempotency-Key"
				}
			}
			slices.Sort(query)
			if known := slices.Sorted(slices.Values(queries[pattern])); !slices.Equal(query, known) {
				t.Errorf("%s: the parameters %q are described, and %q are known", pattern, query, known)
			}
			if slices.Contains(withBody, pattern) != (op.RequestBody != nil) {
				t.Errorf("%s: a body is described: %t", pattern, op.RequestBody != nil)
			}
			if slices.Contains(keyed, pattern) != key {
				t.Errorf("%s: an Idempotency-Key is described: %t", pattern, key)
			}
			for _, name := range path {
				if !strings.Contains(pattern, name) {
					t.Errorf("%s: %s is no part of its path", pattern, name)
				}
			}
		}
	}
	if described != len(routes) {
		t.Errorf("%d routes are described, and there are %d: %q", described, len(routes), slices.Sorted(maps.Keys(routes)))
	}
	for _, list := range [][]string{slices.Collect(maps.Keys(queries)), withBody, keyed} {
		for _, pattern := range list {
			if _, there := routes[pattern]; !there {
				t.Errorf("there is no %s", pattern)
			}
		}
	}
}
