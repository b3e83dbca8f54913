package console

import (
	"bytes"
	"html/template"
	"sync"
)

// rendered are the pages that many may look at, as they were sent last. Twenty viewers cost one rendering in two seconds, and not ten
// a second.
type rendered struct {
	mu    sync.Mutex
	texts map[renderedKey][]byte
}

// renderedKey is what two viewers must have in common to get the same page.
type renderedKey struct {
	name, root, user, theme, back string
	made                          any // of what was read
}

const renderedMax = 20 // then all are rendered anew

// render renders a page, so it comes whole or not at all.
func (r *rendered) render(show *template.Template, p *page) ([]byte, error) {
	body, shared := p.Body.(interface{ sameAs() any })
	if !shared || p.Said != "" {
		return execute(show, p)
	}
	key := renderedKey{p.Name, p.Root, p.User, p.Theme, p.Back, body.sameAs()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := r.texts[key]; text != nil {
		return text, nil
	}
	text, err := execute(show, p)
	if r.texts == nil || len(r.texts) >= renderedMax {
		r.texts = map[renderedKey][]byte{}
	}
	if err == nil {
		r.texts[key] = text
	}
	return text, err
}

func execute(show *template.Template, p *page) ([]byte, error) {
	var text bytes.Buffer
	err := show.Execute(&text, p)
	return text.Bytes(), err
}
