// Command order is an example workflow endpoint: it fails until PUT /mend repairs it, and exits
// after the first run that it completes. It shows what goes over the wire; write workflows with
// more than one step with an SDK.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
)

func main() {
	address := flag.String("listen", "127.0.0.1:3000", "HOST:PORT to listen on")
	flag.Parse()
	var mended atomic.Bool
	completed := make(chan struct{}, 1)
	server := &http.Server{Addr: *address}
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "mended:", mended.Load()) })
	http.HandleFunc("PUT /mend", func(http.ResponseWriter, *http.Request) { mended.Store(true) })
	http.HandleFunc("POST /order", func(w http.ResponseWriter, r *http.Request) {
		if !mended.Load() {
			http.Error(w, "the database of orders does not answer", http.StatusInternalServerError)
			return
		}
		if err := finish(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Upstash-Workflow-Sdk", "v1.0.0") // marks the response as that of a workflow
		select {
		case completed <- struct{}{}:
		default: // another run was faster
		}
	})
	log.Printf("listening on http://%s; /order fails until PUT /mend, and this program ends after the first run that succeeds", *address)
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
	<-completed
	log.Print("a run succeeded: done")
	if err := server.Shutdown(context.Background()); err != nil { // after the run's response is sent
		log.Fatal(err)
	}
}

// finish reports to the server that the run is complete, and its result.
func finish(r *http.Request) error {
	run := os.Getenv("QSTASH_URL") + "/v2/workflows/runs/" + r.Header.Get("Upstash-Workflow-RunId") + "?cancel=false"
	request, err := http.NewRequestWithContext(r.Context(), http.MethodDelete, run, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("QSTASH_TOKEN"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", answer.Status)
	}
	return nil
}
