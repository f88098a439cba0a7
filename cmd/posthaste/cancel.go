package main

import (
	"posthaste/internal/client"
)

// cancelAll sends a request that cancels things until it finds none any more, or once if
// it lists them, and tells how many there were. The bar on Err is for the eye.
func cancelAll(t terminal, to *connection, request client.Request, thing, output string) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := to.open(t)
	if err != nil {
		return err
	}
	bar := newBar(t.Err, unknownTotal, thing+"s")
	total := 0
	for {
		var answer struct {
			Cancelled int `json:"cancelled"`
		}
		if err := server.Do(ctx, request, &answer); err != nil {
			_ = bar.Clear()
			return err
		}
		total += answer.Cancelled
		_ = bar.Add(answer.Cancelled)
		if answer.Cancelled == 0 || request.Body != nil {
			break
		}
	}
	_ = bar.Clear()
	if output == "json" {
		return writeJSON(t.Out, map[string]int{"cancelled": total})
	}
	return writeLine(t.Out, "cancelled %s", counted(total, thing))
}
