package engine_test

import (
	"fmt"
	"log"
	"os"

	"ringmq/engine"
	"ringmq/engine/message"
)

// answer lets a caller wait for one put.
type answer chan engine.PutResult

func (a answer) PutDone(_ *engine.PutRequest, r *engine.PutResult) { a <- *r }

// A store without a network: open, put, get, close.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := engine.Open(engine.Options{
		Dir:         dir,
		SegmentSize: 1 << 20, // of the commit log; 1 GiB if not set
		SyncFlush:   true,    // a put is answered when the device has it
	})
	if err != nil {
		log.Fatal(err)
	}

	done := make(answer, 1)
	store.Put(&engine.PutRequest{
		Message: message.Message{Topic: "greetings", QueueID: 0, Body: []byte("hello")},
		Done:    done,
	})
	r := <-done
	fmt.Println("stored:", r.Status == engine.PutOK, "number", r.QueueOffset, "at", r.Offset)

	// Dispatch follows the flush: a consumer that finds nothing yet is told by Options.Arrivals when to come again.
	var res engine.GetResult
	for res.Count == 0 {
		store.Get([]byte("greetings"), 0, 0, 32, 1<<20, nil, &res)
	}
	for _, view := range res.Views { // neighbouring records, as they stand in the log
		var record message.Record
		if err := message.Decode(view.Bytes, &record); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("got: %s, next is %d\n", record.Body, res.Next)
	}
	res.Release()

	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// stored: true number 0 at 0
	// got: hello, next is 1
}
