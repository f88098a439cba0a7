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
	return p.turn.write(w, list{
		head:   `{"` + p.name + `":[`,
		comma:  ",",
		tail:   endOfPage(p.cursor),
		length: p.length,
		item:   p.item,
	})
}

// endOfPage returns what follows the items of a page: the cursor unless it is the last page.
func endOfPage(cursor string) string {
	if cursor == "" {
		return "]}\n"
	}
	return `],"cursor":"` + cursor + "\"}\n"
}

// encodedPage is a page that is encoded already, and the room that it takes until it is written.
type encodedPage struct {
	text []byte
	room *pageRoom
}

// stream implements streamed.
func (p encodedPage) stream(w io.Writer) error {
	defer p.room.give()
	_, err := w.Write(p.text)
	return err
}
