package api

import "io"

// encodedPage is a page of a list in JSON, and the memory reserved for it until it is written.
type encodedPage struct {
	text     []byte
	reserved *reservation
}

// stream implements streamed.
func (p encodedPage) stream(w io.Writer) error {
	defer p.reserved.release()
	_, err := w.Write(p.text)
	return err
}

// page reads and encodes a page in the user's turn. read passes each item to add and returns
// the cursor, "" for the last page. The answer is an object with the items under a name, and
// the cursor.
func (r *request) page(name string, read func(add func(item any)) (cursor string, err error)) (answer, error) {
	text := []byte(`{"` + name + `":[`)
	first := len(text)
	var buffer jsonBuffer
	add := func(item any) {
		if len(text) > first {
			text = append(text, ',')
		}
		text = append(text, buffer.encode(item)...)
	}
	reserved, err := r.readPage(func() (size int, err error) {
		err = r.readers.Do(r.Context(), r.user, func() error {
			cursor, err := read(add)
			text = append(text, endOfPage(cursor)...)
			return err
		})
		return len(text), err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(encodedPage{text, reserved}), nil
}

// endOfPage returns what follows the items of a page: the cursor unless it is the last page.
func endOfPage(cursor string) string {
	if cursor == "" {
		return "]}\n"
	}
	return `],"cursor":"` + cursor + "\"}\n"
}
