package api

import "io"

// page is an answer with one page of what may be many: an object with the items under a
// name, and the cursor unless it is the last page. Items are encoded one by one: with
// bodies and responses a page can be many megabytes.
type page struct {
	turn   turn
	done   func() // is called when all is written
	name   string
	length int
	item   func(i int) []byte // as JSON, valid until the next call
	cursor string
}

// stream implements streamed.
func (p page) stream(w io.Writer) error {
	defer p.done()
	tail := "]}\n"
	if p.cursor != "" {
		tail = `],"cursor":"` + p.cursor + "\"}\n"
	}
	return p.turn.write(w, list{
		head:   `{"` + p.name + `":[`,
		comma:  ",",
		tail:   tail,
		length: p.length,
		item:   p.item,
	})
}
