// A target has a source, and this one has nothing but its precompiled header.
