// The numbers of the fields of a Perfetto trace that the export writes.
// Source: the .proto files in Perfetto's protos/perfetto/trace (trace_packet, track_event, track_descriptor,
// interned_data, profile_common, clock_snapshot).
//
// Threading: constants.
#pragma once

#include <cstdint>

namespace slipstream::trace_export::perfetto {

using Field = uint32_t;

inline constexpr Field kTracePacket = 1;  // of Trace

namespace packet {
inline constexpr Field kClockSnapshot = 6;
inline constexpr Field kTimestamp = 8;
inline constexpr Field kSequence = 10;
inline constexpr Field kTrackEvent = 11;
inline constexpr Field kInternedData = 12;
inline constexpr Field kSequenceFlags = 13;
inline constexpr Field kTrackDescriptor = 60;
inline constexpr Field kFirstOnSequence = 87;
}  // namespace packet

inline constexpr uint32_t kStateCleared = 1;  // of SequenceFlags
inline constexpr uint32_t kNeedsState = 2;

namespace clocks {
inline constexpr Field kClock = 1;
inline constexpr Field kId = 1;  // of a clock
inline constexpr Field kTimestamp = 2;
inline constexpr uint32_t kRealtime = 1;  // of BuiltinClock
inline constexpr uint32_t kBoottime = 6;  // that of packets which name none
}  // namespace clocks

namespace event {
inline constexpr Field kCategory = 3;
inline constexpr Field kAnnotation = 4;
inline constexpr Field kType = 9;
inline constexpr Field kName = 10;
inline constexpr Field kTrack = 11;
inline constexpr Field kCounterValue = 30;
inline constexpr Field kSourceLocation = 34;
inline constexpr Field kFlow = 47;
inline constexpr Field kCallstack = 56;
}  // namespace event

enum class EventType : int32_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };

namespace annotation {
inline constexpr Field kName = 1;
inline constexpr Field kInt = 4;
inline constexpr Field kDouble = 5;
inline constexpr Field kText = 6;
inline constexpr Field kInternedText = 17;
}  // namespace annotation

namespace interned {
inline constexpr Field kCategories = 1;
inline constexpr Field kEventNames = 2;
inline constexpr Field kAnnotationNames = 3;
inline constexpr Field kSourceLocations = 4;
inline constexpr Field kFunctions = 5;
inline constexpr Field kFrames = 6;
inline constexpr Field kCallstacks = 7;
inline constexpr Field kSourcePaths = 18;
inline constexpr Field kTexts = 29;  // of annotations
// Of every one of them.
inline constexpr Field kId = 1;
inline constexpr Field kText = 2;
}  // namespace interned

namespace location {
inline constexpr Field kFile = 2;
inline constexpr Field kFunction = 3;
inline constexpr Field kLine = 4;
}  // namespace location

namespace frame {
inline constexpr Field kFunction = 2;
inline constexpr Field kSourcePath = 5;
inline constexpr Field kLine = 6;
}  // namespace frame

namespace callstack {
inline constexpr Field kFrames = 2;  // outermost first
}  // namespace callstack

namespace track {
inline constexpr Field kUuid = 1;
inline constexpr Field kName = 2;
inline constexpr Field kProcess = 3;
inline constexpr Field kThread = 4;
inline constexpr Field kParent = 5;
inline constexpr Field kCounter = 8;
}  // namespace track

namespace process {
inline constexpr Field kPid = 1;
inline constexpr Field kCommand = 2;  // one each argument; as one text here
inline constexpr Field kName = 6;
inline constexpr Field kLabel = 8;
}  // namespace process

namespace thread {
inline constexpr Field kPid = 1;
inline constexpr Field kTid = 2;
inline constexpr Field kName = 5;
}  // namespace thread

namespace counter {
inline constexpr Field kUnit = 3;
inline constexpr int32_t kCount = 2;  // of Unit
inline constexpr int32_t kBytes = 3;
}  // namespace counter

}  // namespace slipstream::trace_export::perfetto
