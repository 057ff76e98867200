// Command volatile serves a folder with one file, disk, that behaves like a disk with a volatile write cache whose power can be cut. The crash
// suite puts a file system on it by a loop device. It says ready when it serves, and then takes orders from its standard input, one a line, and answers each
// with one line:
//
//	cut        cut the power: what is not synced is kept, lost or torn block by block, all that follows fails with EIO
//	hang 8s    let the next sync take that much longer
//	stats      tell how many writes and syncs there were
//
// At the end of its input, on SIGINT and on SIGTERM the power is cut, if it is not yet, and the folder is unmounted. SIGUSR1 cuts the power.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	medium := flag.String("medium", "", "`file` that holds what is durable; its size is the disk's")
	folder := flag.String("mount", "", "empty `folder` to serve the disk in")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the coins")
	var d delays
	flag.DurationVar(&d.sync, "sync", 0, "`time` that a sync takes")
	flag.DurationVar(&d.perMiB, "permib", 0, "`time` that a sync takes for each MiB")
	flag.Parse()
	if *medium == "" || *folder == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*medium, *folder, *seed, d); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name, folder string, seed uint64, t delays) error {
	medium, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer medium.Close()
	d, err := newDisk(medium, seed, t)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGTERM)
	server, err := serve(d, folder)
	if err != nil {
		return err
	}
	fmt.Printf("ready seed=%d\n", seed)
	orders := make(chan string)
	go readOrders(os.Stdin, orders)
	obey(d, orders, signals)
	_, err = d.Cut()
	if e := leave(server, folder); err == nil {
		err = e
	}
	return err
}

func readOrders(in io.Reader, orders chan<- string) {
	defer close(orders)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		orders <- lines.Text()
	}
}

// obey returns at the end of the orders or at a signal to end.
func obey(d *disk, orders <-chan string, signals <-chan os.Signal) {
	for {
		select {
		case order, more := <-orders:
			if !more {
				return
			}
			fmt.Println(answer(d, order))
		case s := <-signals:
			if s != syscall.SIGUSR1 {
				return
			}
			fmt.Println(answer(d, "cut"))
		}
	}
}

func answer(d *disk, order string) string {
	word, argument, _ := strings.Cut(strings.TrimSpace(order), " ")
	switch word {
	case "cut":
		f, err := d.Cut()
		if err != nil {
			return "error: " + err.Error()
		}
		return fmt.Sprintf("cut %v %v", f, d.Stats())
	case "hang":
		wait, err := time.ParseDuration(argument)
		if err != nil || wait < 0 {
			return fmt.Sprintf("error: hang %q: want a duration like 8s", argument)
		}
		d.Hang(wait)
		return "hang " + wait.String()
	case "stats":
		return "stats " + d.Stats().String()
	default:
		return fmt.Sprintf("error: order %q: want cut, hang or stats", order)
	}
}
