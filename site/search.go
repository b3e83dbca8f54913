package main

import "encoding/json"

// writeSearch writes what a search looks through, a file for each language: of each page its address and title, and its parts as heading,
// anchor and text.
func (s *site) writeSearch() error {
	for _, l := range languages {
		all := [][]any{}
		for _, p := range s.pages {
			if p.language != l || p.movedTo != nil {
				continue
			}
			parts := [][]string{}
			for _, part := range p.sections {
				parts = append(parts, []string{part.title, part.anchor, part.text})
			}
			all = append(all, []any{p.address, p.title, parts})
		}
		index, err := json.Marshal(all)
		if err != nil {
			return err
		}
		s.files["search."+l.Code+".json"] = index
	}
	return nil
}
