package api

import "io"

// pieces is a text in pieces: one that grows as a whole is copied many times.
type pieces struct {
	list [][]byte
	size int // bytes of all
}

// write appends a text. It returns where the text is, within a single piece.
func (p *pieces) write(text []byte) []byte {
	last := len(p.list) - 1
	if last < 0 || cap(p.list[last])-len(p.list[last]) < len(text) {
		p.list = append(p.list, make([]byte, 0, max(pieceBytes, len(text))))
		last++
	}
	begin := len(p.list[last])
	p.list[last] = append(p.list[last], text...)
	p.size += len(text)
	return p.list[last][begin:]
}

// writeString is write for a string.
func (p *pieces) writeString(text string) { p.write([]byte(text)) }

// encodedPage is a page of a list in JSON, and the memory reserved for it until it is written.
type encodedPage struct {
	text     [][]byte
	reserved *reservation
}

// stream implements streamed.
func (p encodedPage) stream(w io.Writer) error {
	defer p.reserved.release()
	for _, piece := range p.text {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// page reads and encodes a page in the user's turn. read passes each item to add and returns
// the cursor, "" for the last page. The answer is an object with the items under a name, and
// the cursor.
func (r *request) page(name string, read func(add func(item any)) (cursor string, err error)) (answer, error) {
	var text pieces
	text.writeString(`{"` + name + `":[`)
	first := text.size
	var buffer jsonBuffer
	add := func(item any) {
		if text.size > first {
			text.writeString(",")
		}
		text.write(buffer.encode(item))
	}
	reserved, err := r.readPage(func() (size int, err error) {
		err = r.readers.Do(r.Context(), r.user, func() error {
			cursor, err := read(add)
			text.writeString(endOfPage(cursor))
			return err
		})
		return text.size, err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(encodedPage{text.list, reserved}), nil
}

// endOfPage returns what follows the items of a page: the cursor unless it is the last page.
func endOfPage(cursor string) string {
	if cursor == "" {
		return "]}\n"
	}
	return `],"cursor":"` + cursor + "\"}\n"
}
