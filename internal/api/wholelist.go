package api

import (
	"bytes"
	"context"
	"io"

	"posthaste/internal/store"
)

// wholeList is an answer with all of a list, which clients read without a cursor: a JSON
// array. It is read and written part by part, each within the memory for a page.
type wholeList[T, V any] struct {
	ctx      context.Context
	reserved *reservation
	part     store.List[T] // that is to be written next
	view     func(T) V
	size     func(T) int
	read     func(ctx context.Context, after string) (store.List[T], error)
}

// newList reads the first part of a list when there is memory for it. While there is none
// the request holds no place at the gate of requests.
func newList[T, V any](r *request, view func(T) V, size func(T) int,
	read func(ctx context.Context, after string) (store.List[T], error),
) (answer, error) {
	l := &wholeList[T, V]{ctx: r.Context(), reserved: r.newReservation(), view: view, size: size, read: read}
	if err := l.reserved.reserve(l.ctx); err != nil {
		return answer{}, err
	}
	err := r.work()
	if err == nil {
		err = l.next("")
	}
	if err != nil {
		l.reserved.release()
		return answer{}, err
	}
	return ok(l), nil
}

// next reads the part behind a name, within the reserved memory.
func (l *wholeList[T, V]) next(after string) (err error) {
	if l.part, err = l.read(l.ctx, after); err != nil {
		return err
	}
	size := 0
	for _, item := range l.part.Items {
		size += l.size(item)
	}
	l.reserved.shrink(size)
	return nil
}

// stream implements streamed.
func (l *wholeList[T, V]) stream(w io.Writer) error {
	defer l.reserved.release()
	var buffer jsonBuffer
	head := "["
	for {
		for i, item := range l.part.Items {
			encoded := bytes.TrimSuffix(buffer.encode(l.view(item)), []byte("\n"))
			if _, err := io.WriteString(w, head); err != nil {
				return err
			}
			if _, err := w.Write(encoded); err != nil {
				return err
			}
			head = ","
			clear(l.part.Items[i : i+1]) // garbage once it is written
		}
		if l.part.Next == "" {
			break
		}
		if err := l.reserved.reserve(l.ctx); err != nil {
			return err
		}
		if err := l.next(l.part.Next); err != nil {
			return err
		}
	}
	if head == "[" {
		_, err := io.WriteString(w, "[]\n")
		return err
	}
	_, err := io.WriteString(w, "]\n")
	return err
}
