package api

import (
	"io"
	"iter"
)

// streamPage writes a page as an object: its items, which are JSON, under a name,
// and the cursor unless it is the last page. Items are written one by one: with
// bodies and responses a page can be many megabytes.
func streamPage(w io.Writer, name string, items iter.Seq[[]byte], cursor string) error {
	if _, err := io.WriteString(w, `{"`+name+`":[`); err != nil {
		return err
	}
	comma := ""
	for item := range items {
		if _, err := io.WriteString(w, comma); err != nil {
			return err
		}
		if _, err := w.Write(item); err != nil {
			return err
		}
		comma = ","
	}
	end := "]}\n"
	if cursor != "" {
		end = `],"cursor":"` + cursor + "\"}\n"
	}
	_, err := io.WriteString(w, end)
	return err
}
