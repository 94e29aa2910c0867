// SPDX-License-Identifier: Apache-2.0

// A scheduler extender that does nothing but decode and encode the types of k8s.io/kube-scheduler, as extenders written in Go
// do: every node passes, every node scores 5. What kwatt's extender is measured against.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	extender "k8s.io/kube-scheduler/extender/v1"
)

func decode(w http.ResponseWriter, r *http.Request) (args extender.ExtenderArgs, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return args, false
	}
	return args, true
}

func encode(w http.ResponseWriter, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// with its length: the scheduler gives up a connection on which a long answer came in chunks
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = w.Write(text)
}

func filter(w http.ResponseWriter, r *http.Request) {
	if args, ok := decode(w, r); ok {
		encode(w, extender.ExtenderFilterResult{NodeNames: args.NodeNames, Nodes: args.Nodes})
	}
}

func prioritize(w http.ResponseWriter, r *http.Request) {
	args, ok := decode(w, r)
	if !ok {
		return
	}
	scores := extender.HostPriorityList{}
	if args.NodeNames != nil {
		scores = make(extender.HostPriorityList, 0, len(*args.NodeNames))
		for _, name := range *args.NodeNames {
			scores = append(scores, extender.HostPriority{Host: name, Score: 5})
		}
	} else if args.Nodes != nil {
		scores = make(extender.HostPriorityList, 0, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			scores = append(scores, extender.HostPriority{Host: args.Nodes.Items[i].Name, Score: 5})
		}
	}
	encode(w, scores)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goextender HOST:PORT      port 0: one that is free, which it prints")
		os.Exit(2)
	}
	http.HandleFunc("/filter", filter)
	http.HandleFunc("/prioritize", prioritize)
	listener, err := net.Listen("tcp", os.Args[1])
	if err == nil {
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		err = http.Serve(listener, nil)
	}
	fmt.Fprintln(os.Stderr, "goextender:", err)
	os.Exit(1)
}
